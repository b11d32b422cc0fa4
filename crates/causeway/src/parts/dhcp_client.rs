//! A DHCP client, as far as it takes to find out what a machine that boots would be told, and to have an address.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::time::timeout;

/// The hardware address of a client.
pub(crate) type Card = [u8; 6];

/// Always the same one, so that asking often takes one address at most, and that for seconds.
pub(crate) const OWN_CARD: Card = [0x02, 0x63, 0x77, 0x64, 0x6f, 0x63];
const COOKIE: [u8; 4] = [99, 130, 83, 99];
const TRIES: usize = 4;
const WAIT: Duration = Duration::from_secs(1);

const DISCOVER: u8 = 1;
const OFFER: u8 = 2;
const REQUEST: u8 = 3;
const ACKNOWLEDGEMENT: u8 = 5;

/// What a client has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) address: Ipv4Addr,
    pub(crate) mask: Ipv4Addr,
    pub(crate) routers: Vec<Ipv4Addr>,
    pub(crate) resolvers: Vec<Ipv4Addr>,
}

/// What a server would give a client, or gives it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) address: Option<Ipv4Addr>,
    pub(crate) server: Option<Ipv4Addr>,
    pub(crate) mask: Option<Ipv4Addr>,
    pub(crate) routers: Vec<Ipv4Addr>,
    pub(crate) resolvers: Vec<Ipv4Addr>,
}

/// Every offer to a card that comes, of the servers on the network with this address of all; none is taken.
///
/// # Errors
/// When nothing can be sent there.
pub(crate) async fn offers(everybody: Ipv4Addr, card: Card) -> io::Result<Vec<Offer>> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 68)).await?;
    socket.set_broadcast(true)?;
    exchange(&socket, everybody, card, &[53, 1, DISCOVER], OFFER).await
}

/// An address for the card of a machine that has none.
///
/// # Errors
/// When nobody gives one.
pub(crate) async fn lease(interface: &str) -> io::Result<Lease> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 68)).await?;
    socket.set_broadcast(true)?;
    socket.bind_device(Some(interface.as_bytes()))?;
    let nobody = || io::Error::new(io::ErrorKind::TimedOut, "no DHCP server gives an address");
    let all = Ipv4Addr::BROADCAST;
    let offers = exchange(&socket, all, OWN_CARD, &[53, 1, DISCOVER], OFFER).await?;
    let (address, server) =
        offers.iter().find_map(|offer| Some((offer.address?, offer.server?))).ok_or_else(nobody)?;
    let mut wanted = vec![53, 1, REQUEST, 50, 4];
    wanted.extend(address.octets());
    wanted.extend([54, 4]);
    wanted.extend(server.octets());
    let given = exchange(&socket, all, OWN_CARD, &wanted, ACKNOWLEDGEMENT).await?;
    let given = given.into_iter().next().ok_or_else(nobody)?;
    let (Some(address), Some(mask)) = (given.address, given.mask) else { return Err(nobody()) };
    Ok(Lease { address, mask, routers: given.routers, resolvers: given.resolvers })
}

/// Sends a message until it is answered, and takes all answers of that kind.
async fn exchange(
    socket: &UdpSocket,
    to: Ipv4Addr,
    card: Card,
    options: &[u8],
    kind: u8,
) -> io::Result<Vec<Offer>> {
    let message = message(card, options);
    let mut offers: Vec<Offer> = Vec::new();
    for _ in 0..TRIES {
        socket.send_to(&message, SocketAddrV4::new(to, 67)).await?;
        let mut buffer = [0; 1500];
        while let Ok(received) = timeout(WAIT, socket.recv_from(&mut buffer)).await {
            let (length, _) = received?;
            let offer = buffer.get(..length).and_then(|answer| read(answer, id(), card, kind));
            offers.extend(offer.filter(|offer| !offers.contains(offer)));
        }
        if !offers.is_empty() {
            break;
        }
    }
    Ok(offers)
}

fn id() -> [u8; 4] {
    std::process::id().to_be_bytes()
}

/// A client's message; the answer has to be for all, since the client has no address.
fn message(card: Card, options: &[u8]) -> Vec<u8> {
    let mut message = vec![1, 1, 6, 0];
    message.extend(id());
    message.extend([0, 0, 0x80, 0]);
    message.extend([0; 16]);
    message.extend(card);
    message.resize(236, 0);
    message.extend(COOKIE);
    message.extend(options);
    message.extend([55, 4, 1, 3, 6, 15]);
    message.push(255);
    message.resize(300, 0);
    message
}

/// An answer to it of this kind.
fn read(message: &[u8], id: [u8; 4], card: Card, kind: u8) -> Option<Offer> {
    let is_answer = *message.first()? == 2 && message.get(4..8)? == id && message.get(28..34)? == card;
    if !is_answer || message.get(236..240)? != COOKIE {
        return None;
    }
    let address = |bytes: &[u8]| <[u8; 4]>::try_from(bytes).ok().map(Ipv4Addr::from);
    let mut offer = Offer { address: address(message.get(16..20)?), ..Offer::default() };
    let mut is_of_kind = false;
    let mut options = message.get(240..)?;
    while let [code, rest @ ..] = options {
        match code {
            0 => options = rest,
            255 => break,
            _ => {
                let (length, rest) = rest.split_first()?;
                let value = rest.get(..usize::from(*length))?;
                match code {
                    1 => offer.mask = address(value),
                    3 => offer.routers = value.chunks(4).filter_map(address).collect(),
                    6 => offer.resolvers = value.chunks(4).filter_map(address).collect(),
                    53 => is_of_kind = value == [kind],
                    54 => offer.server = address(value),
                    _ => {}
                }
                options = rest.get(usize::from(*length)..)?;
            }
        }
    }
    is_of_kind.then_some(offer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_to_this_client_is_read_and_nothing_else() {
        let id = id();
        let mut answer = message(OWN_CARD, &[53, 1, DISCOVER]);
        assert_eq!(read(&answer, id, OWN_CARD, OFFER), None, "a question");
        answer[0] = 2;
        answer[16..20].copy_from_slice(&[192, 168, 100, 50]);
        answer.truncate(240);
        answer.extend([53, 1, 2, 0, 1, 4, 255, 255, 255, 0, 6, 8, 192, 168, 100, 3, 9, 9, 9, 9, 255]);
        let offer = read(&answer, id, OWN_CARD, OFFER).unwrap();
        assert_eq!(offer.address, Some(Ipv4Addr::new(192, 168, 100, 50)));
        assert_eq!(offer.mask, Some(Ipv4Addr::new(255, 255, 255, 0)));
        assert_eq!(offer.resolvers, [Ipv4Addr::new(192, 168, 100, 3), Ipv4Addr::new(9, 9, 9, 9)]);
        assert_eq!(read(&answer, [0; 4], OWN_CARD, OFFER), None, "an answer to somebody else");
        for length in 0..answer.len() - 1 {
            let _ = read(&answer[..length], id, OWN_CARD, OFFER);
        }
        answer[242] = 5;
        assert_eq!(read(&answer, id, OWN_CARD, OFFER), None, "no offer");
    }
}
