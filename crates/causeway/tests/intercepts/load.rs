//! Clients of Services on this machine.

use std::time::Duration;

use causeway_testkit::asking;

/// What became of one request: who answered, or what went wrong.
pub fn ask(address: &str, headers: &[&str]) -> Result<String, String> {
    asking::ask(address, 80, headers)
}

/// The same at another port.
pub fn ask_at(address: &str, port: u16, headers: &[&str]) -> Result<String, String> {
    asking::ask(address, port, headers)
}

/// Asks a Service with these headers all the time; whoever is not among `answerers` is wrong.
pub fn load(address: &str, headers: &[&'static str], answerers: &[&'static str]) -> asking::Load {
    load_at(address, 80, headers, answerers)
}

/// The same at another port.
pub fn load_at(
    address: &str,
    port: u16,
    headers: &[&'static str],
    answerers: &[&'static str],
) -> asking::Load {
    let asked = asking::Asked {
        at: (address.to_owned(), port),
        headers: headers.to_vec(),
        answerers: answerers.to_vec(),
        pause: Duration::from_millis(2),
    };
    asking::Load::start(&asked, || {})
}
