//! Clients of the service: one request, or requests without end while the story goes on.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::manifests::{NAMESPACE, SHOP};

const TIMEOUT: Duration = Duration::from_secs(5);
/// Between two requests of those that keep asking.
const PAUSE: Duration = Duration::from_millis(10);

/// Who answers a request.
pub(super) async fn ask(service: SocketAddr, header: Option<(&str, &str)>) -> anyhow::Result<String> {
    let asked = async {
        let mut stream = TcpStream::connect(service).await?;
        let header = header.map(|(name, value)| format!("{name}: {value}\r\n")).unwrap_or_default();
        let request =
            format!("GET / HTTP/1.1\r\nhost: {SHOP}.{NAMESPACE}\r\n{header}connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").context("the answer is not HTTP")?;
        ensure!(head.starts_with("HTTP/1.1 200"), "the answer is {head}");
        Ok(body.lines().next().unwrap_or_default().to_owned())
    };
    timeout(TIMEOUT, asked).await.context("no answer")?
}

/// Asks again and again, without the developer's header: how often, and what failed.
pub(super) struct Clients {
    task: JoinHandle<(usize, Vec<String>)>,
    stop: oneshot::Sender<()>,
}

impl Clients {
    pub(super) fn start(service: SocketAddr) -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let (mut asked, mut failed) = (0, Vec::new());
            loop {
                asked += 1;
                match ask(service, None).await {
                    Ok(answer) if answer == SHOP => {}
                    Ok(other) => failed.push(format!("answered by {other}")),
                    Err(error) => failed.push(format!("{error:#}")),
                }
                tokio::select! {
                    _ = &mut stopped => return (asked, failed),
                    () = sleep(PAUSE) => {}
                }
            }
        });
        Self { task, stop }
    }

    pub(super) async fn end(self) -> (usize, Vec<String>) {
        drop(self.stop);
        self.task.await.unwrap_or_default()
    }
}
