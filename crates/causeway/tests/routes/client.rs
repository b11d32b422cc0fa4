//! A client that says a ClientHello and nothing more, and a server that answers everybody with a word: nothing between
//! them opens TLS, so neither has to speak it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// What is heard after a ClientHello for this name, or without a word; nothing if the connection is refused.
pub fn ask(at: SocketAddr, name: Option<&str>) -> String {
    let mut said = Vec::new();
    if let Ok(mut stream) = TcpStream::connect(at) {
        let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
        if let Some(name) = name {
            let _ = stream.write_all(&hello(name));
        }
        let _ = stream.read_to_end(&mut said);
    }
    // An alert is no answer.
    if said.first() == Some(&21) { String::new() } else { String::from_utf8_lossy(&said).into_owned() }
}

/// Answers every connection with the word, for as long as the tests run.
pub fn speaking(listener: TcpListener, word: &'static str) -> u16 {
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
            let _ = stream.write_all(word.as_bytes());
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    port
}

fn hello(name: &str) -> Vec<u8> {
    let sized = |body: Vec<u8>| [u16::try_from(body.len()).unwrap().to_be_bytes().to_vec(), body].concat();
    let entry = [vec![0], sized(name.as_bytes().to_vec())].concat();
    let extension = [vec![0, 0], sized(sized(entry))].concat();
    let body = [vec![3, 3], vec![7; 32], vec![0], sized(vec![0x13, 0x01]), vec![1, 0], sized(extension)];
    let message = [vec![1, 0], sized(body.concat())].concat();
    [vec![22, 3, 1], sized(message)].concat()
}
