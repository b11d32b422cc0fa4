//! One link of a laptop, as the hub sees it: what the laptop asks for on it.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use causeway_link::{Handler, Incoming, Link, Stream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::seats::{Seat, Standing};
use super::{Hub, outward};
use crate::datagrams;
use crate::greeting::{Greeting, Welcome};
use crate::request::{CONNECTED, Request, flow_settings, serve_settings, stream_settings};

/// A laptop on one link.
pub(super) struct Caller {
    pub(super) hub: Weak<Hub>,
    pub(super) uid: Arc<str>,
    pub(super) from: SocketAddr,
    pub(super) greeting: Greeting,
    /// Whether the laptop has put the link to use.
    pub(super) served: AtomicBool,
}

impl Handler for Caller {
    fn opened(&self, incoming: Incoming<'_>) {
        let Some(hub) = self.hub.upgrade() else { return };
        let Some(request) = Request::decode(incoming.request()) else {
            return incoming
                .refuse("failed: the cluster's end does not know this request: is it of an older release?");
        };
        if matches!(request, Request::Datagrams(_)) != incoming.is_flow() {
            return incoming.refuse("failed: the request is for something else than was opened");
        }
        let settings = stream_settings(&hub.traffic, holder(&self.uid));
        if request == Request::Serve {
            if self.served.swap(true, Relaxed) {
                return incoming.refuse("failed: the link is in use already");
            }
            let link = incoming.link().clone();
            let stream = incoming.accept(serve_settings(&hub.traffic));
            let standing = Standing { way: self.greeting.way, from: self.from, since: SystemTime::now() };
            let seat = Seat::new(link, standing, self.greeting.session.clone());
            tokio::spawn(serve(hub, self.uid.clone(), seat, stream));
            return;
        }
        let place = match hub.places.take(&self.uid) {
            Ok(place) => place,
            Err(refusal) => return incoming.refuse(&refusal.to_string()),
        };
        let uid = self.uid.clone();
        match request {
            Request::Connect(to) => {
                tokio::spawn(outward::carry(hub, uid, to, incoming.accept(settings), place));
            }
            Request::Resolve(name) => {
                tokio::spawn(outward::answer(hub, uid, name, incoming.accept(settings), place));
            }
            Request::Datagrams(to) => {
                let settings = flow_settings(&hub.traffic, holder(&uid));
                datagrams::accept(incoming, settings, outward::target(hub, uid, to), place);
            }
            Request::Serve | Request::Deliver(_) => {
                incoming.refuse("failed: that is not for a laptop to ask");
            }
        }
    }
}

/// Gives a link the workstation's seat for as long as the laptop holds the stream.
async fn serve(hub: Arc<Hub>, uid: Arc<str>, seat: Arc<Seat>, mut stream: Stream) {
    hub.seats.take(&uid, &seat);
    let Standing { way, from, .. } = seat.standing();
    tracing::info!(workstation = %uid, %way, %from, "a laptop is connected");
    let refusal = hold(&hub, &seat, &mut stream).await;
    hub.seats.give_up(&uid, &seat);
    tracing::info!(workstation = %uid, %way, %from, "a laptop's link is out of use");
    // What is on it goes on until it ends.
    seat.link.leave();
    if let Some(refusal) = refusal {
        stream.refuse(refusal);
    }
}

/// Waits until the laptop gives the seat up, or has to; says why if it has to know.
async fn hold(hub: &Hub, seat: &Seat, stream: &mut Stream) -> Option<String> {
    let mut welcome = vec![CONNECTED];
    welcome.extend(Welcome { replica: hub.name.clone() }.encode());
    stream.write_all(&welcome).await.ok()?;
    let mut told = false;
    loop {
        tokio::select! {
            // Whatever comes: the laptop has nothing to say but that it is done.
            _ = stream.read_u8() => return None,
            refusal = seat.replaced() => return refusal.map(|refusal| refusal.to_string()),
            () = hub.draining.cancelled(), if !told => {
                // A wish: the laptop leaves when it has another link, and until then this one counts.
                told = true;
                stream.shutdown().await.ok()?;
            }
        }
    }
}

/// Whose share of memory a workstation's unread bytes take. Addresses stand for clients there, and many laptops may come from
/// one address; a number of the workstation's own does as well.
pub(super) fn holder(uid: &str) -> IpAddr {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, uid).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    Ipv6Addr::from_bits(half(0) << 64 | half(1)).into()
}

impl Caller {
    pub(super) fn link_is_unused(&self, link: &Link) -> bool {
        !self.served.load(Relaxed) && link.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workstations_hold_for_themselves() {
        let [one, other] =
            ["7f6f0c51-5d5a-4b86-9f3e-3f6f7c0d2a11", "7f6f0c51-5d5a-4b86-9f3e-3f6f7c0d2a12"].map(holder);
        assert_ne!(one, other);
        assert_eq!(one, holder("7f6f0c51-5d5a-4b86-9f3e-3f6f7c0d2a11"));
    }
}
