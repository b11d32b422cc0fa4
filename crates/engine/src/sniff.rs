//! Reads the first bytes of a connection until it is clear what the client wants. Bounded in bytes here, in time by
//! the caller.

use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::client_hello;
use crate::close_reason::CloseReason;
use crate::proxy_protocol;

/// Enough for most hellos in one read.
const FIRST_READ: usize = 4 << 10;

/// What the client said first.
#[derive(Debug, Default)]
pub struct Opening {
    /// The client and the address it asked for, by the PROXY protocol header.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// Bytes that were read and belong to the endpoint.
    pub bytes: Vec<u8>,
    pub greeting: Greeting,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub enum Greeting {
    /// Nobody looked.
    #[default]
    Unread,
    Plaintext,
    Tls {
        server_name: Option<String>,
    },
}

/// Reads a PROXY protocol header if there must be one, and a ClientHello if `tls`.
pub async fn read<R: AsyncRead + Unpin>(
    client: &mut R,
    proxy_protocol: bool,
    tls: bool,
) -> Result<Opening, CloseReason> {
    let mut opening = Opening::default();
    if proxy_protocol {
        loop {
            match proxy_protocol::parse(&opening.bytes) {
                proxy_protocol::Parsed::Header(header) => {
                    opening.addresses = header.addresses;
                    opening.bytes.drain(..header.length);
                    break;
                }
                proxy_protocol::Parsed::NeedMore => more(client, &mut opening.bytes).await?,
                proxy_protocol::Parsed::Absent | proxy_protocol::Parsed::Invalid(_) => {
                    return Err(CloseReason::InvalidProxyHeader);
                }
            }
        }
    }
    if tls {
        let mut parser = client_hello::Parser::default();
        opening.greeting = loop {
            match parser.parse(&opening.bytes) {
                client_hello::Parsed::NeedMore => more(client, &mut opening.bytes).await?,
                client_hello::Parsed::NotTls => break Greeting::Plaintext,
                client_hello::Parsed::Hello(hello) => break Greeting::Tls { server_name: hello.server_name },
                client_hello::Parsed::Invalid(_) => return Err(CloseReason::InvalidHello),
            }
        };
    }
    Ok(opening)
}

async fn more<R: AsyncRead + Unpin>(client: &mut R, bytes: &mut Vec<u8>) -> Result<(), CloseReason> {
    bytes.reserve(FIRST_READ);
    match client.read_buf(bytes).await {
        Ok(0) => Err(CloseReason::ClientLeft),
        Ok(_) => Ok(()),
        Err(_) => Err(CloseReason::ClientReset),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tells_plaintext_and_keeps_its_bytes() {
        let mut client: &[u8] = b"GET / HTTP/1.1\r\n\r\n";
        let opening = read(&mut client, false, true).await.unwrap();
        assert_eq!(opening.greeting, Greeting::Plaintext);
        assert_eq!(opening.bytes, b"GET / HTTP/1.1\r\n\r\n");
    }

    #[tokio::test]
    async fn takes_the_client_from_the_proxy_header() {
        let mut client: &[u8] = b"PROXY TCP4 192.0.2.1 192.0.2.2 1000 443\r\nhello";
        let opening = read(&mut client, true, false).await.unwrap();
        assert_eq!(opening.addresses.unwrap().0, "192.0.2.1:1000".parse().unwrap());
        assert_eq!(opening.bytes, b"hello");
        assert_eq!(read(&mut &b"hello"[..], true, false).await.unwrap_err(), CloseReason::InvalidProxyHeader);
    }

    #[tokio::test]
    async fn an_early_end_is_the_client_leaving() {
        for start in [&b""[..], b"\x16\x03\x01"] {
            let mut client = start;
            assert_eq!(read(&mut client, false, true).await.unwrap_err(), CloseReason::ClientLeft);
        }
    }
}
