//! h2spec, which tries each sentence of HTTP/2 and HPACK at a server.

use std::collections::BTreeSet;
use std::process::Command;

use axum::Router;
use bytes::Bytes;
use causeway_testkit::environment;
use causeway_testkit::kubectl::finish;

use crate::gateway::Gateway;
use crate::server::serve;

/// What can't pass in clear text, where HTTP/1.1 is spoken on the same port: who does not begin with the preface of HTTP/2 speaks
/// that, and hears so (400) before the connection ends. h2spec wants to hear nothing.
const IN_CLEAR_TEXT: &[&str] = &["2: Sends invalid connection preface"];

#[test]
fn http2_is_spoken_as_h2spec_wants_it() {
    let Some(h2spec) = environment::program("h2spec") else { return };
    // It has to read all of a request, and its answer has to be longer than a window that h2spec grants.
    let answer = async |_: Bytes| "hello ".repeat(1000);
    let gateway = Gateway::start("HTTPRoute", &[("/", serve(Router::new().fallback(answer)))]);
    let secure = ["-t", "-k"];
    for (port, more, known) in
        [(gateway.plain, &[][..], IN_CLEAR_TEXT), (gateway.secure, &secure[..], &[][..])]
    {
        let mut command = Command::new(&h2spec);
        command.args(["-h", "localhost", "-p", &port.to_string(), "-o", "5"]).args(more);
        let said = finish(&mut command).stdout;
        let failed: BTreeSet<_> = said.lines().filter_map(|line| line.trim().strip_prefix("× ")).collect();
        assert_eq!(failed, known.iter().copied().collect(), "{said}");
        assert!(said.contains("145 tests, ") && said.contains(" 0 skipped"), "{said}");
    }
}
