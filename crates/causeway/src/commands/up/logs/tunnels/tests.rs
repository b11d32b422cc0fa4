use std::fs::{self, OpenOptions};
use std::io::Write;

use tokio::sync::oneshot;

use super::*;

fn line(number: u32) -> String {
    format!("2026-01-01T00:00:00.{number:06}Z line {number}\n")
}

fn lines(numbers: std::ops::Range<u32>) -> String {
    numbers.map(line).collect()
}

fn add(path: &Path, text: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

async fn all(path: &Path, options: LogOptions) -> String {
    let mut lines = Lines::open(path.to_owned(), options).unwrap();
    let mut text = String::new();
    while let Some(piece) = lines.next().await {
        text.push_str(std::str::from_utf8(&piece.unwrap()).unwrap());
    }
    text
}

async fn next(lines: &mut Lines) -> String {
    let piece = tokio::time::timeout(Duration::from_secs(20), lines.next()).await.expect("a line in time");
    String::from_utf8(piece.expect("not the end").unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn the_last_lines_with_and_without_their_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.log");
    assert_eq!(all(&path, LogOptions::default()).await, "", "one that is not there yet is empty");
    add(&path, &lines(0..3));
    add(&path, "2026-01-01T00:00:01.0Z unfin");
    assert_eq!(all(&path, LogOptions::default()).await, "line 0\nline 1\nline 2\n");
    let some = |tail_lines| LogOptions { tail_lines: Some(tail_lines), ..LogOptions::default() };
    assert_eq!(all(&path, some(0)).await, "");
    assert_eq!(all(&path, some(2)).await, "line 1\nline 2\n");
    assert_eq!(all(&path, some(9)).await, "line 0\nline 1\nline 2\n");
    let stamped = LogOptions { timestamps: true, ..some(1) };
    assert_eq!(all(&path, stamped).await, line(2));
}

#[tokio::test]
async fn a_follower_sees_every_line_once_whatever_becomes_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.log");
    let (end, ended) = oneshot::channel::<()>();
    let until: BoxFuture<'static, ()> = Box::pin(async move { drop(ended.await) });
    let options = LogOptions { follow_until: Some(until), ..LogOptions::default() };
    let mut lines = Lines::open(path.clone(), options).unwrap();
    add(&path, &self::lines(0..4));
    assert_eq!(next(&mut lines).await, "line 0\nline 1\nline 2\nline 3\n");
    // Replaced by its newer half, with one line more.
    fs::write(dir.path().join("next"), self::lines(2..5)).unwrap();
    fs::rename(dir.path().join("next"), &path).unwrap();
    assert_eq!(next(&mut lines).await, "line 4\n");
    // Cut in place.
    fs::write(&path, line(5)).unwrap();
    assert_eq!(next(&mut lines).await, "line 5\n");
    // An object of the same name that came later.
    fs::remove_file(&path).unwrap();
    add(&path, &line(6));
    assert_eq!(next(&mut lines).await, "line 6\n");
    add(&path, &line(7));
    end.send(()).unwrap();
    assert_eq!(next(&mut lines).await, "line 7\n", "what is there at the end is still sent");
    assert!(lines.next().await.is_none());
}
