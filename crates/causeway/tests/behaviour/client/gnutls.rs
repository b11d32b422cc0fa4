//! `gnutls-cli`.

use std::net::SocketAddr;

use tokio::process::Command;

use super::program::{Said, authority, found, run};

/// Asks a backend for its name over HTTP; `None` if there is no gnutls-cli.
pub async fn get(address: SocketAddr, name: &str, args: &[&str]) -> Option<Said> {
    if !found("gnutls-cli") {
        return None;
    }
    let authority = authority();
    let mut command = Command::new("gnutls-cli");
    command.arg("--port").arg(address.port().to_string()).arg("--x509cafile").arg(authority.path());
    command
        .args(["--sni-hostname", name, "--verify-hostname", name])
        .args(args)
        .arg(address.ip().to_string());
    Some(run(&mut command, b"GET / HTTP/1.0\r\n\r\n").await)
}
