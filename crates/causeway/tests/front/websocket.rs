//! The cases of the Autobahn suite through the gateway, over HTTP/1.1 and in streams of HTTP/2 (RFC 8441).

use causeway_testkit::kubectl::finish;

use crate::gateway::Gateway;
use crate::script::{Echo, script};

#[test]
fn every_case_of_autobahn_ends_as_it_does_without_us() {
    let Some(mut cases) = script("autobahn_cases.py", "autobahn, h2") else { return };
    let Some(echo) = Echo::start() else { return };
    let gateway = Gateway::start("HTTPRoute", &[("/", echo.port)]);
    for port in [echo.port, gateway.plain, gateway.secure] {
        cases.arg(port.to_string());
    }
    let ran = finish(cases.arg(gateway.authority()));
    assert_eq!(ran.stdout, "515 cases, 0 bad\n", "{}", ran.stderr);
}
