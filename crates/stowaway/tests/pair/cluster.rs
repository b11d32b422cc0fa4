//! A hub, and what belongs to it.

use std::net::{IpAddr, SocketAddr};
use std::sync::LazyLock;
use std::time::Duration;

use causeway_link::{Authority, Key, KeyId, Role};
use causeway_stowaway::hub::{self, Grant, Reach, Standing, Workstation};
use causeway_stowaway::laptop::{self, Approach, State};
use causeway_stowaway::{Place, STOWAWAY, Way, workstation_name};
use causeway_testkit::{patience, soon};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::carrier::Carrier;
use crate::services::any;

/// The workstation of most tests, and its carrier.
pub const UID: &str = "7f6f0c51-5d5a-4b86-9f3e-3f6f7c0d2a11";
pub const OTHER: &str = "0b0f5a7e-2a35-4f4e-8a5c-95ab6a1f9e22";
pub const CARRIER: &str = "carrier-web";

/// The key of all laptops, and what it is known by.
static KEY: LazyLock<(Key, KeyId)> = LazyLock::new(|| {
    let key = Key::new().expect("a key");
    let id = KeyId::of_request(&key.request().expect("made")).expect("read");
    (key, id)
});

pub struct Cluster {
    pub authority: Authority,
    pub hub: hub::Handle,
}

impl Cluster {
    /// A hub that knows the two workstations.
    pub async fn start() -> Self {
        Self::replica(Authority::new().expect("keys"), "first").await
    }

    pub async fn replica(authority: Authority, name: &str) -> Self {
        Self::at(authority, name, any()).await
    }

    pub async fn at(authority: Authority, name: &str, link: SocketAddr) -> Self {
        let identity = authority.issue(Role::Listener, STOWAWAY).expect("keys");
        let config = hub::Config {
            name: name.to_owned(),
            link,
            carriers: any(),
            wireguard: None,
            identity,
            wireguard_key: None,
        };
        let hub = hub::start(config).await.expect("ports");
        hub.set_workstations(vec![workstation(UID), workstation(OTHER)]);
        Self { authority, hub }
    }

    pub fn link(&self) -> SocketAddr {
        self.hub.addresses().link
    }

    /// Lets laptops reach these addresses, and nothing else.
    pub fn allow(&self, addresses: &[SocketAddr]) {
        self.hub.set_reach(Reach {
            addresses: addresses.iter().map(SocketAddr::ip).collect(),
            ..Reach::default()
        });
    }

    /// Grants the carrier these ports of the workstation.
    pub fn grant(&self, ports: &[u16]) {
        self.hub.set_grants(ports.iter().map(|port| grant(CARRIER, UID, *port)).collect());
    }

    pub fn identity(&self, uid: &str) -> causeway_link::Identity {
        let (key, request) = (&KEY.0, KEY.0.request().expect("made"));
        let given = self.authority.renew(&request, Role::Dialer, &workstation_name(uid)).expect("signed");
        key.identity(&given, self.authority.certificate()).expect("fits")
    }

    /// A laptop that comes directly, once it is connected.
    pub async fn laptop(&self, uid: &str) -> laptop::Handle {
        let laptop = self.start_laptop(uid, vec![direct(self.link())]);
        connected(&laptop).await;
        self.has(uid).await;
        laptop
    }

    pub fn start_laptop(&self, uid: &str, ways: Vec<Approach>) -> laptop::Handle {
        laptop::start(laptop::Config::new(self.identity(uid), ways))
    }

    /// Asks the hub for a port of a workstation as the carrier does that may.
    pub async fn carry(&self, name: &str) -> std::io::Result<TlsStream<TcpStream>> {
        let carrier = Carrier::new(&self.authority, CARRIER);
        soon("a handshake", carrier.ask(self.hub.addresses().carriers, name)).await
    }

    /// Waits until the hub has this workstation.
    pub async fn has(&self, uid: &str) -> Standing {
        let mut standings = self.hub.standings();
        let found = soon("the workstation comes", standings.wait_for(|all| all.contains_key(uid))).await;
        found.expect("runs")[uid].clone()
    }

    /// Waits until the hub has lost it, within a time.
    pub async fn loses(&self, uid: &str, limit: Duration) {
        let mut standings = self.hub.standings();
        let gone = standings.wait_for(|all| !all.contains_key(uid));
        let gone = tokio::time::timeout(patience(limit), gone).await;
        gone.expect("the workstation is gone").expect("runs");
    }
}

pub fn workstation(uid: &str) -> Workstation {
    Workstation {
        uid: uid.to_owned(),
        label: format!("team/{uid}"),
        link_key: Some(KEY.1),
        wireguard_key: None,
        address: None,
    }
}

pub fn grant(carrier: &str, uid: &str, port: u16) -> Grant {
    Grant { carrier: carrier.to_owned(), workstation: uid.to_owned(), address: None, port }
}

pub fn direct(address: SocketAddr) -> Approach {
    Approach::Direct(vec![address.to_string()])
}

/// Waits for a state.
pub async fn until(laptop: &laptop::Handle, what: &str, wanted: impl Fn(&State) -> bool) -> State {
    let mut state = laptop.state();
    soon(what, state.wait_for(|state| wanted(state))).await.expect("runs").clone()
}

pub async fn connected(laptop: &laptop::Handle) -> State {
    until(laptop, "the laptop connects", |state| state.connection.is_some()).await
}

pub fn way(state: &State) -> Option<Way> {
    state.connection.as_ref().map(|connection| connection.way)
}

pub fn replica(state: &State) -> Option<&str> {
    state.connection.as_ref().map(|connection| connection.replica.as_str())
}

pub fn place(text: &str) -> Place {
    text.parse().expect("a place")
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}
