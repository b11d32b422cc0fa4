//! One question to a DNS server for the addresses of a name.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::time::timeout;

const TRIES: u16 = 3;
const WAIT: Duration = Duration::from_secs(1);
const A: u16 = 1;
const AAAA: u16 = 28;

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// In order; none for a name that has none of the family.
    Addresses(Vec<IpAddr>),
    /// The code of a refusal: 3 says that there is no such name.
    Refused(u8),
    /// Nobody answers.
    Silence,
}

/// Asks for the addresses of one family.
///
/// # Errors
/// When nothing can be sent there.
pub(crate) async fn ask(server: SocketAddr, name: &str, ipv6: bool) -> io::Result<Answer> {
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let kind = if ipv6 { AAAA } else { A };
    for number in 1..=TRIES {
        let socket = UdpSocket::bind((any, 0)).await?;
        socket.connect(server).await?;
        socket.send(&question(number, name, kind)).await?;
        let mut buffer = [0; 1500];
        // Refused by the machine itself: nobody listens.
        let Ok(Ok(length)) = timeout(WAIT, socket.recv(&mut buffer)).await else { continue };
        if let Some(answer) = buffer.get(..length).and_then(|message| read(message, number, kind)) {
            return Ok(answer);
        }
    }
    Ok(Answer::Silence)
}

fn question(id: u16, name: &str, kind: u16) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    message.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.').filter(|label| !label.is_empty()) {
        message.push(label.len().min(63) as u8);
        message.extend(label.bytes().take(63));
    }
    message.push(0);
    message.extend(kind.to_be_bytes());
    message.extend([0, 1]);
    message
}

fn read(message: &[u8], id: u16, kind: u16) -> Option<Answer> {
    let word = |at: usize| Some(u16::from_be_bytes(message.get(at..at + 2)?.try_into().ok()?));
    if word(0)? != id || message.get(2)? & 0x80 == 0 {
        return None;
    }
    let code = message.get(3)? & 0x0f;
    if code != 0 {
        return Some(Answer::Refused(code));
    }
    let mut at = skip_name(message, 12)? + 4;
    let mut found = Vec::new();
    for _ in 0..word(6)? {
        at = skip_name(message, at)?;
        let (of, length) = (word(at)?, usize::from(word(at + 8)?));
        let data = message.get(at + 10..at + 10 + length)?;
        let address = match of {
            A if kind == A => <[u8; 4]>::try_from(data).ok().map(IpAddr::from),
            AAAA if kind == AAAA => <[u8; 16]>::try_from(data).ok().map(IpAddr::from),
            _ => None,
        };
        found.extend(address);
        at += 10 + length;
    }
    found.sort();
    Some(Answer::Addresses(found))
}

fn skip_name(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *message.get(at)? {
            0 => return Some(at + 1),
            length if length & 0xc0 == 0xc0 => return Some(at + 2),
            length => at += 1 + usize::from(length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_rubbish_is_not() {
        let mut message = question(7, "a.example", A);
        assert_eq!(read(&message, 7, A), None, "a question");
        message[2] |= 0x80;
        assert_eq!(read(&message, 7, A), Some(Answer::Addresses(Vec::new())));
        message[7] = 1;
        message.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4, 192, 0, 2, 1]);
        assert_eq!(read(&message, 7, A), Some(Answer::Addresses(vec![Ipv4Addr::new(192, 0, 2, 1).into()])));
        assert_eq!(read(&message, 8, A), None, "to another question");
        for length in 0..message.len() {
            let _ = read(&message[..length], 7, A);
        }
        message[3] |= 3;
        assert_eq!(read(&message, 7, A), Some(Answer::Refused(3)));
    }
}
