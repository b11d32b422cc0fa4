//! Runs a client program; where it is missing, its test is skipped by name.

use std::io::Write;
use std::process::Stdio;

use causeway_testkit::soon;
use tempfile::NamedTempFile;
use tokio::process::Command;

use crate::certificates;

/// What a client said, both streams together, and whether it was content.
pub struct Said {
    pub text: String,
    pub content: bool,
}

/// Whether a program can be run. Where CI runs, a missing one is a failure.
pub fn found(program: &str) -> bool {
    let found = std::process::Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok();
    if !found {
        let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
        assert!(!ci, "{program} is missing; scripts/test-deps.sh installs it");
        println!("skipped: {program} is missing; scripts/test-deps.sh installs it");
    }
    found
}

/// The authority's certificate in a file, which goes away with the value.
pub fn authority() -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(certificates::pem().as_bytes()).unwrap();
    file
}

/// Runs a command with this input, and an end to it.
pub async fn run(command: &mut Command, input: &[u8]) -> Said {
    use tokio::io::AsyncWriteExt;
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A client that is refused may be gone before it has read its input.
    let _ = stdin.write_all(input).await;
    drop(stdin);
    let output = soon("a client's end", child.wait_with_output()).await.unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Said { text: text.join("\n"), content: output.status.success() }
}
