//! From the hub to a laptop: streams and flows to its ports.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use causeway_link::{Flow, Link, Stream, Unusable};
use causeway_netstack::{TcpFlow, UdpFlow};
use tokio::sync::mpsc;

use super::Hub;
use super::caller::holder;
use super::places::Place;
use crate::refusal::{Cause, Refusal};
use crate::request::{Delivery, Request, flow_settings, hear_connected, stream_settings};
use crate::server_name::Wanted;
use crate::{datagrams, framed};

/// How long a laptop has to connect. A port of its own takes no time; one that says nothing for so long is as good as gone, and
/// whoever waits has another to go to, and must have its answer within three seconds of the laptop's last word.
pub(super) const CONNECT: Duration = Duration::from_millis(1500);

/// What leads to a laptop's port.
pub(super) enum Delivered {
    Stream(Stream),
    Flow(Flow, mpsc::Receiver<Vec<u8>>),
    WireGuard(TcpFlow),
    WireGuardFlow(UdpFlow),
}

impl Hub {
    /// Whether a workstation is connected.
    pub(super) fn is_there(&self, uid: &str) -> Result<(), Refusal> {
        let has_link = self.seats.get(uid).is_some_and(|seat| seat.link.is_usable());
        if has_link || self.address_of(uid).is_some() { Ok(()) } else { Err(gone(uid)) }
    }

    /// The address in WireGuard of a workstation that is there.
    fn address_of(&self, uid: &str) -> Option<IpAddr> {
        self.wireguard.as_ref()?.address_of(uid)
    }

    /// Connects to a port of a workstation.
    pub(super) async fn deliver(
        &self,
        wanted: &Wanted,
        client: SocketAddr,
    ) -> Result<(Delivered, Place), Refusal> {
        let uid: Arc<str> = wanted.workstation.as_str().into();
        let place = self.places.take(&uid)?;
        // A link that breaks keeps its seat until that is noticed, or another takes it.
        let has_address = self.address_of(&uid).is_some();
        let delivered = match self.seats.get(&uid).filter(|seat| seat.link.is_usable() || !has_address) {
            Some(seat) => self.deliver_by_link(&seat.link, &uid, wanted, client).await?,
            None => self.deliver_by_wireguard(&uid, wanted).await?,
        };
        Ok((delivered, place))
    }

    /// A peer of WireGuard is not heard any more: nobody else waits for an answer.
    pub(super) fn missed(&self, uid: &str) {
        if let Some(wireguard) = &self.wireguard {
            wireguard.fell_silent(uid);
        }
    }

    async fn deliver_by_link(
        &self,
        link: &Arc<Link>,
        uid: &str,
        wanted: &Wanted,
        client: SocketAddr,
    ) -> Result<Delivered, Refusal> {
        let delivery = Delivery { address: wanted.address, port: wanted.port, client };
        let request = Request::Deliver(delivery).encode();
        let failed = |error: io::Error| Refusal::of(format!("workstation {uid}"), &error);
        if wanted.datagrams {
            let (sink, datagrams) = framed::queue();
            let settings = flow_settings(&self.traffic, holder(uid));
            let opening = datagrams::open(link, &request, settings, sink).map_err(|Unusable| gone(uid))?;
            return Ok(Delivered::Flow(opening.connected(CONNECT).await.map_err(failed)?, datagrams));
        }
        let settings = stream_settings(&self.traffic, holder(uid));
        let mut stream = link.open(&request, settings).map_err(|Unusable| gone(uid))?;
        hear_connected(&mut stream, CONNECT).await.map_err(failed)?;
        Ok(Delivered::Stream(stream))
    }

    /// To a peer of WireGuard that is not ours: its own ports are all that it has.
    async fn deliver_by_wireguard(&self, uid: &Arc<str>, wanted: &Wanted) -> Result<Delivered, Refusal> {
        let wireguard = self.wireguard.as_ref().ok_or_else(|| gone(uid))?;
        let address = wireguard.address_of(uid).ok_or_else(|| gone(uid))?;
        if wanted.address.is_some_and(|wanted| wanted != address) {
            let text =
                format!("workstation {uid} has come by WireGuard alone: nothing behind it can be reached");
            return Err(Refusal::new(Cause::Failed, text));
        }
        let to = SocketAddr::new(address, wanted.port);
        if wanted.datagrams {
            return Ok(Delivered::WireGuardFlow(wireguard.datagrams(to).await?));
        }
        Ok(Delivered::WireGuard(wireguard.connect(uid, to).await?))
    }
}

fn gone(uid: &str) -> Refusal {
    Refusal::new(Cause::Refused, format!("workstation {uid} is not connected here"))
}
