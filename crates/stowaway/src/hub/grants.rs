//! What carriers are granted: each a few ports of a few workstations.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::Uid;
use crate::server_name::Wanted;

/// How long what is open may go on without its grant: as long as a carrier gives what it ends.
const DRAIN: Duration = Duration::from_secs(30);

/// A carrier may connect to a port of a workstation, or to one of an address behind it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Grant {
    /// The carrier's name in its certificate.
    pub carrier: String,
    /// Whose machine.
    pub workstation: Uid,
    /// An address behind the machine; none is the machine itself.
    pub address: Option<IpAddr>,
    /// The port there.
    pub port: u16,
}

/// All grants, by workstation.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Grants(HashMap<Uid, Ports>);

type Ports = HashMap<(Option<IpAddr>, u16), HashSet<String>>;

impl Grants {
    pub(super) fn new(grants: Vec<Grant>) -> Self {
        let mut all: HashMap<Uid, Ports> = HashMap::new();
        for Grant { carrier, workstation, address, port } in grants {
            let address = address.map(|address| address.to_canonical());
            all.entry(workstation).or_default().entry((address, port)).or_default().insert(carrier);
        }
        Self(all)
    }

    /// Whether this carrier may have it. Whether a workstation is there may know whoever may have one of its ports.
    pub(super) fn allows(&self, carrier: &str, wanted: &Wanted) -> bool {
        let Some(ports) = self.0.get(&wanted.workstation) else { return false };
        let has = |holders: &HashSet<String>| holders.contains(carrier);
        if wanted.port == 0 {
            return ports.values().any(has);
        }
        ports.get(&(wanted.address, wanted.port)).is_some_and(has)
    }
}

/// Waits until a carrier has been without its grant for as long as what is open may go on. One that comes back in time, as when a
/// request is made anew, ends nothing.
pub(super) async fn withdrawn(mut grants: watch::Receiver<Grants>, carrier: &str, wanted: &Wanted) {
    loop {
        if grants.wait_for(|grants| !grants.allows(carrier, wanted)).await.is_err() {
            // Nobody takes grants back any more; what ends the hub ends what is open.
            return std::future::pending().await;
        }
        if timeout(DRAIN, grants.wait_for(|grants| grants.allows(carrier, wanted))).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};

    use super::*;

    fn grant(carrier: &str, address: Option<&str>, port: u16) -> Grant {
        Grant {
            carrier: carrier.to_owned(),
            workstation: "w".to_owned(),
            address: address.map(|address| address.parse().unwrap()),
            port,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_open_ends_when_its_grant_has_been_away_for_long() {
        let (held, second) = (grant("one", None, 80), Duration::from_secs(1));
        let (tx, rx) = watch::channel(Grants::new(vec![held.clone()]));
        let watching = tokio::spawn(async move {
            withdrawn(rx, "one", &Wanted::port("w", 80)).await;
            Instant::now()
        });
        // What others get or lose is nothing to it, and neither is a short while without.
        for (grants, lasts) in [
            (vec![held.clone(), grant("two", None, 80)], DRAIN * 2),
            (vec![grant("two", None, 80)], DRAIN / 2),
            (vec![held.clone()], DRAIN * 2),
        ] {
            tx.send_replace(Grants::new(grants));
            sleep(lasts).await;
            assert!(!watching.is_finished());
        }
        let gone = Instant::now();
        tx.send_replace(Grants::new(vec![grant("one", None, 81)]));
        sleep(second).await;
        tx.send_replace(Grants::default());
        assert_eq!(watching.await.unwrap() - gone, DRAIN, "whatever else was said meanwhile");
    }

    #[test]
    fn a_carrier_has_what_it_was_granted_and_nothing_else() {
        let grants = Grants::new(vec![
            grant("one", None, 80),
            grant("two", Some("10.0.0.7"), 80),
            grant("two", None, 81),
        ]);
        let asks = |carrier: &str, name: &str| {
            let wanted = Wanted::parse(&format!("{name}.workstation.causeway")).unwrap();
            grants.allows(carrier, &wanted)
        };
        for (carrier, name, may) in [
            ("one", "p80.w", true),
            ("one", "u80.w", true), // datagrams have the same ports
            ("two", "p80.w", false),
            ("two", "p80.a10-0-0-7.w", true),
            ("one", "p80.a10-0-0-7.w", false),
            ("one", "p82.w", false),
            ("one", "p80.v", false),
            ("one", "p0.w", true),
            ("three", "p0.w", false),
        ] {
            assert_eq!(asks(carrier, name), may, "{carrier} {name}");
        }
    }
}
