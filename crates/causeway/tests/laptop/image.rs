//! What is run in containers: this program, since there is no registry to take another image from. On one machine and on a cluster.

use std::path::PathBuf;
use std::process::Command;

use causeway_containers::{Choice, Runtime, client_image};
use causeway_testkit::daemon::Daemon;
use causeway_testkit::kubectl::{Ran, finish};
use causeway_testkit::server::program;

/// An image of this program.
pub fn image(socket: &str) -> String {
    let tokio = tokio::runtime::Runtime::new().unwrap();
    tokio.block_on(async {
        let choice = Choice::Socket(socket.into());
        let runtime =
            causeway_testkit::eventually("the runtime answers", async || Runtime::connect(&choice).await)
                .await;
        let options =
            client_image::Options { binary: PathBuf::from(program()), ..client_image::Options::default() };
        client_image::ensure(&runtime, &options, |_| {}).await.unwrap()
    })
}

/// What containers a daemon has.
pub fn containers(daemon: Daemon, socket: &str) -> Ran {
    let url = format!("unix://{socket}");
    match daemon {
        Daemon::Docker => finish(Command::new("docker").args(["--host", &url, "ps", "--all", "--quiet"])),
        Daemon::Podman => finish(Command::new("podman").args(["--url", &url, "ps", "--all", "--quiet"])),
    }
}
