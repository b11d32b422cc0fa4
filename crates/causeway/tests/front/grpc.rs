//! grpcio, client and server, with the gateway between them.

use causeway_testkit::kubectl::finish;
use causeway_testkit::port;

use crate::gateway::Gateway;
use crate::script::script;

#[test]
fn calls_of_every_kind_pass_in_clear_text_and_with_tls() {
    let Some(mut calls) = script("grpc_calls.py", "grpc") else { return };
    let server = port::free();
    let gateway = Gateway::start("GRPCRoute", &[("/", server)]);
    for port in [server, gateway.plain, gateway.secure] {
        calls.arg(port.to_string());
    }
    let said = finish(calls.arg(gateway.authority())).ok();
    let passed: Vec<_> = said.lines().filter_map(|line| line.strip_prefix("ok ")).collect();
    let kinds = [
        "unary",
        "client_stream",
        "server_stream",
        "both_ways",
        "errors",
        "deadline",
        "cancellation",
        "large_messages",
        "keepalive",
        "a_thousand_calls",
    ];
    assert_eq!(passed, [kinds, kinds].concat());
}
