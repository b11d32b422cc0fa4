//! Whether an Envoy's workers answer. A process that hangs keeps its connection to this one, and the kernel goes on accepting
//! for its listeners; so a listener of its own is asked, which the start configuration has for this.

use std::path::Path;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// How often it is asked, and how often while it does not answer.
const LOOK: Duration = Duration::from_secs(1);
const HASTE: Duration = Duration::from_millis(200);
/// A busy machine keeps workers waiting.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks again and again, until dropped.
pub(super) async fn keep(at: impl AsRef<Path>, answers_tx: watch::Sender<bool>) {
    loop {
        let answers = timeout(PATIENCE, until_answered(at.as_ref())).await.is_ok();
        answers_tx.send_if_modified(|before| std::mem::replace(before, answers) != answers);
        sleep(if answers { LOOK } else { HASTE }).await;
    }
}

/// One that starts does not listen yet.
async fn until_answered(at: &Path) {
    while !ask(at).await {
        sleep(HASTE).await;
    }
}

async fn ask(at: &Path) -> bool {
    match UnixStream::connect(at).await {
        Ok(mut stream) => stream.read_u8().await.is_ok(),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::UnixListener;

    use super::*;

    #[tokio::test]
    async fn one_that_accepts_and_says_nothing_does_not_answer() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().join("answers.sock");
        assert!(!ask(&at).await, "nobody is there");
        let listener = UnixListener::bind(&at).unwrap();
        let (answers_tx, mut answers_rx) = watch::channel(true);
        let kept = tokio::spawn(keep(at, answers_tx));
        answers_rx.wait_for(|answers| !answers).await.unwrap();
        let served = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.write_all(b"here\n").await;
            }
        });
        answers_rx.wait_for(|answers| *answers).await.unwrap();
        kept.abort();
        served.abort();
    }
}
