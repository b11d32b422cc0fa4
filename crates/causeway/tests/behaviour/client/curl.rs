//! curl.

use std::net::SocketAddr;

use tokio::process::Command;

use super::program::{Said, authority, found, run};

/// Gets a URL whose host is to be found at this address; `None` if there is no curl.
pub async fn get(address: SocketAddr, url: &str, args: &[&str]) -> Option<Said> {
    if !found("curl") {
        return None;
    }
    let authority = authority();
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--max-time", "20", "--noproxy", "*", "--cacert"]);
    command.arg(authority.path()).arg("--connect-to").arg(format!("::{address}")).args(args).arg(url);
    Some(run(&mut command, b"").await)
}
