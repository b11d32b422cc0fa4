//! A connection to a server, by TCP: one question at a time, each with a deadline.

use std::io;
use std::time::Duration;

use hickory_proto::op::{Message, OpCode};
use hickory_proto::rr::RecordType;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::message::{self, Answer, Signer};
use crate::dns::mark::mark_name;
use crate::dns::{Found, Kind, Owner};
use crate::{Error, Name};

/// For a connection, and for each answer.
const DEADLINE: Duration = Duration::from_secs(5);

pub(super) struct Connection<'a> {
    stream: TcpStream,
    server: String,
    signer: Option<&'a Signer>,
}

impl<'a> Connection<'a> {
    pub(super) async fn open(server: &str, signer: Option<&'a Signer>) -> Result<Self, Error> {
        let address = with_port(server);
        let stream =
            in_time(server, async { TcpStream::connect(&address).await.map_err(Into::into) }).await?;
        // Questions are small, and each is waited for.
        let _ = stream.set_nodelay(true);
        Ok(Self { stream, server: server.to_owned(), signer })
    }

    /// Sends a message and waits for its answer.
    pub(super) async fn exchange(&mut self, message: Message) -> Result<Answer, Error> {
        let id = message.metadata.id;
        // Questions are public, and not every server signs its answers to them.
        let signer = self.signer.filter(|_| message.metadata.op_code == OpCode::Update);
        let (bytes, verifier) = message::seal(message, signer)?;
        let Self { stream, server, .. } = self;
        in_time(server, async {
            let length = u16::try_from(bytes.len()).map_err(|_| "the message is too long")?;
            // In one piece, so that the length does not travel alone.
            stream.write_all(&[&length.to_be_bytes(), &bytes[..]].concat()).await?;
            let mut answer = vec![0; stream.read_u16().await?.into()];
            stream.read_exact(&mut answer).await?;
            message::open(&answer, id, verifier)
        })
        .await
    }

    pub(super) async fn ask(&mut self, name: &Name, kind: RecordType) -> Result<Answer, Error> {
        self.exchange(message::question(name, kind)?).await
    }

    /// What is answered for a name, by kind, and the marks beside it.
    pub(super) async fn found(&mut self, name: &Name) -> Result<Found, Error> {
        let mut found = Found::default();
        for kind in [Kind::A, Kind::Aaaa, Kind::Cname, Kind::Txt] {
            let answer = self.ask(name, message::wire_kind(kind)).await?;
            let Answer::Records(records) = &answer else { return Err(self.unexpected(name, &answer)) };
            found.records.extend(message::records_at(records, name, kind).map(|records| (kind, records)));
        }
        let answer = self.ask(&mark_name(name), RecordType::TXT).await?;
        let Answer::Records(records) = &answer else { return Err(self.unexpected(name, &answer)) };
        found.owners =
            records.iter().filter_map(|record| Owner::from_mark(&message::text(record)?)).collect();
        Ok(found)
    }

    fn unexpected(&self, name: &Name, answer: &Answer) -> Error {
        let key = self.signer.and_then(|signer| Name::parse(&signer.signer_name().to_ascii()).ok());
        answer.error(&self.server, name, key.as_ref())
    }
}

/// With DNS's port if it names none.
fn with_port(server: &str) -> String {
    let bare = server.parse::<std::net::Ipv6Addr>().is_ok();
    if bare {
        format!("[{server}]:53")
    } else if server.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
        server.to_owned()
    } else {
        format!("{server}:53")
    }
}

async fn in_time<T>(
    server: &str,
    work: impl Future<Output = Result<T, Box<dyn std::error::Error + Send + Sync>>>,
) -> Result<T, Error> {
    let late = || io::Error::new(io::ErrorKind::TimedOut, format!("no answer in {} s", DEADLINE.as_secs()));
    let done = timeout(DEADLINE, work).await.unwrap_or_else(|_| Err(late().into()));
    done.map_err(|source| Error::unavailable(server, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_port_has_that_of_dns() {
        for (server, address) in [
            ("192.0.2.1", "192.0.2.1:53"),
            ("192.0.2.1:5353", "192.0.2.1:5353"),
            ("2001:db8::1", "[2001:db8::1]:53"),
            ("[2001:db8::1]:54", "[2001:db8::1]:54"),
            ("ns.example.com", "ns.example.com:53"),
        ] {
            assert_eq!(with_port(server), address);
        }
    }
}
