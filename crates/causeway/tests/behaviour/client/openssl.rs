//! `openssl s_client`.

use std::net::SocketAddr;

use tokio::process::Command;

use super::program::{Said, authority, found, run};

/// Shakes hands and leaves; `None` if there is no openssl. `args` follow the usual ones.
pub async fn shake_hands(address: SocketAddr, args: &[&str]) -> Option<Said> {
    if !found("openssl") {
        return None;
    }
    let authority = authority();
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &address.to_string(), "-verify_return_error", "-CAfile"]);
    command.arg(authority.path()).args(args);
    Some(run(&mut command, b"Q\n").await)
}
