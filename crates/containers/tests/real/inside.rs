//! What this program does when it runs inside a container: one role, named by the environment.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

#[test]
#[ignore = "runs inside a container"]
fn play() {
    let role = std::env::var("ROLE").unwrap();
    match role.as_str() {
        "hello" => {
            println!("hello to out");
            eprintln!("hello to err");
            std::process::exit(7);
        }
        "sleep" => loop {
            std::thread::park();
        },
        "echo" => echo(),
        "dial" => dial(),
        "file" => {
            let path = std::env::var("FILE").unwrap();
            let metadata = std::fs::metadata(&path).unwrap();
            let content = std::fs::read_to_string(&path).unwrap();
            println!("file {:o} {}:{} {content}", metadata.mode() & 0o7777, metadata.uid(), metadata.gid());
        }
        other => panic!("no role {other}"),
    }
}

/// Gives every line back.
fn echo() {
    let listener = TcpListener::bind("[::]:8080").or_else(|_| TcpListener::bind("0.0.0.0:8080")).unwrap();
    println!("echo listens");
    for stream in listener.incoming() {
        let stream = stream.unwrap();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            while lines.read_line(&mut line).unwrap_or(0) > 0 {
                (&stream).write_all(line.as_bytes()).unwrap();
                line.clear();
            }
        });
    }
}

/// Dials `TARGET` until it answers, and ends well when it gives the line back.
fn dial() {
    let target = std::env::var("TARGET").unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match TcpStream::connect(&target) {
            Ok(mut stream) => {
                stream.write_all(b"ahoy\n").unwrap();
                let mut line = String::new();
                BufReader::new(stream).read_line(&mut line).unwrap();
                assert_eq!(line, "ahoy\n");
                println!("echo came back");
                return;
            }
            Err(error) => {
                assert!(Instant::now() < deadline, "{target}: {error}");
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
}
