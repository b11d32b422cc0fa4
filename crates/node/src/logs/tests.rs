use std::fs;

use futures::StreamExt;
use tempfile::TempDir;

use super::*;

const POD: (&str, &str) = ("ns", "web");

fn attempt(data: &TempDir, number: i32) -> Attempt {
    let dir = PodDir::new(data.path(), POD.0, POD.1, "uid-1");
    dir.create().unwrap();
    let path = dir.attempt("main", number);
    fs::create_dir_all(&path).unwrap();
    Attempt::at(path)
}

fn lines(numbers: std::ops::Range<u32>) -> String {
    let line = |n| format!("2026-01-01T00:00:{n:02}.000000000Z stdout F line {n}\n");
    numbers.map(line).collect::<Vec<_>>().concat()
}

async fn read(data: &TempDir, options: LogOptions) -> Result<String, LogError> {
    let stream = LogReader::new(data.path()).open(POD.0, POD.1, "main", options).await?;
    let chunks: Vec<_> = stream.collect().await;
    Ok(chunks.into_iter().map(|chunk| String::from_utf8(chunk.unwrap().to_vec()).unwrap()).collect())
}

#[tokio::test]
async fn tail_since_limit_and_timestamps() {
    let data = tempfile::tempdir().unwrap();
    let attempt = attempt(&data, 0);
    fs::write(attempt.rotated_log(), lines(0..5)).unwrap();
    fs::write(attempt.log(), lines(5..8)).unwrap();
    let tail = |n| LogOptions { tail_lines: Some(n), ..LogOptions::default() };
    assert_eq!(read(&data, tail(0)).await.unwrap(), "");
    assert_eq!(read(&data, tail(2)).await.unwrap(), "line 6\nline 7\n");
    assert_eq!(read(&data, tail(3)).await.unwrap(), "line 5\nline 6\nline 7\n");
    assert_eq!(
        read(&data, tail(4)).await.unwrap(),
        "line 4\nline 5\nline 6\nline 7\n",
        "tail spans rotation"
    );
    assert_eq!(read(&data, tail(100)).await.unwrap().lines().count(), 8);
    let since =
        LogOptions { since_time: Some("2026-01-01T00:00:06Z".parse().unwrap()), ..LogOptions::default() };
    assert_eq!(read(&data, since).await.unwrap(), "line 6\nline 7\n");
    let stamped = LogOptions { timestamps: true, ..tail(1) };
    assert_eq!(read(&data, stamped).await.unwrap(), "2026-01-01T00:00:07.000000000Z line 7\n");
    let limited = LogOptions { limit_bytes: Some(9), ..tail(2) };
    assert_eq!(read(&data, limited).await.unwrap(), "line 6\nli");
}

#[tokio::test]
async fn partial_lines_join() {
    let data = tempfile::tempdir().unwrap();
    let attempt = attempt(&data, 0);
    let text = "2026-01-01T00:00:00Z stdout P ab\n2026-01-01T00:00:01Z stdout F cd\n2026-01-01T00:00:02Z stdout P end\n";
    fs::write(attempt.log(), text).unwrap();
    assert_eq!(read(&data, LogOptions::default()).await.unwrap(), "abcd\nend");
    let stamped = LogOptions { timestamps: true, ..LogOptions::default() };
    assert_eq!(read(&data, stamped).await.unwrap(), "2026-01-01T00:00:00Z abcd\n2026-01-01T00:00:02Z end");
}

#[tokio::test]
async fn previous_is_the_attempt_before_or_the_one_that_waits_for_its_restart() {
    let data = tempfile::tempdir().unwrap();
    let previous = LogOptions { previous: true, ..LogOptions::default() };
    fs::write(attempt(&data, 0).log(), lines(1..2)).unwrap();
    let error = read(&data, previous.clone()).await.unwrap_err();
    assert_eq!(error.to_string(), r#"previous terminated container "main" in pod "web" not found"#);
    fs::write(attempt(&data, 10).log(), lines(2..3)).unwrap();
    assert_eq!(read(&data, previous.clone()).await.unwrap(), "line 1\n");
    assert_eq!(read(&data, LogOptions::default()).await.unwrap(), "line 2\n");
    fs::write(PodDir::new(data.path(), POD.0, POD.1, "uid-1").waiting_mark("main"), "").unwrap();
    assert_eq!(read(&data, previous).await.unwrap(), "line 2\n");
}

#[tokio::test]
async fn a_container_that_never_started_says_so() {
    let data = tempfile::tempdir().unwrap();
    let error = read(&data, LogOptions::default()).await.unwrap_err();
    assert_eq!(error.to_string(), r#"container "main" in pod "web" is waiting to start: ContainerCreating"#);
}

#[tokio::test]
async fn follow_crosses_rotation_and_ends_with_the_container() {
    let data = tempfile::tempdir().unwrap();
    let attempt = attempt(&data, 0);
    // This test stands in for the shim: it lives until it says that the container ended.
    let shim = crate::process::Identity::of(std::process::id() as i32).unwrap();
    attempt.write_record(&crate::process::attempt::Record { shim, started_at: Timestamp::now() }).unwrap();
    fs::write(attempt.log(), lines(0..2)).unwrap();
    let options = LogOptions { follow: true, ..LogOptions::default() };
    let stream = LogReader::new(data.path()).open(POD.0, POD.1, "main", options).await.unwrap();
    let mut stream = std::pin::pin!(stream);
    assert_eq!(stream.next().await.unwrap().unwrap(), "line 0\nline 1\n");
    fs::rename(attempt.log(), attempt.rotated_log()).unwrap();
    fs::write(attempt.log(), lines(2..3)).unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), "line 2\n");
    attempt.write_exit(&crate::process::Exit::unseen(Timestamp::now())).unwrap();
    assert!(stream.next().await.is_none());
}
