//! A machine that is nothing but a network namespace with a card on a bridge: what a virtual machine is to a network. For
//! demos, which bring their own machines.

use std::{io, net::IpAddr, os::fd::AsFd, path::PathBuf};

use ipnet::IpNet;
use nix::sched::{CloneFlags, unshare};

use super::{
    namespace,
    netlink::{Netlink, Route, Table},
};

/// The machine's only interface, beside its loopback.
pub const CARD: &str = "eth0";

/// A machine, which goes with the value.
#[derive(Debug)]
pub struct Machine {
    name: String,
}

impl Machine {
    /// One on a bridge of this machine, without an address.
    ///
    /// # Errors
    /// When the bridge is not there, the name is taken, or this user may not.
    pub fn plug_in(name: &str, bridge: &str) -> io::Result<Self> {
        let host = Netlink::open()?;
        let bridge = host.index(bridge)?;
        let namespace = namespace::create(name)?;
        let machine = Self { name: name.to_owned() };
        host.add_veth(name, CARD, None, namespace.as_fd())?;
        let port = host.index(name)?;
        host.set_master(port, bridge)?;
        host.set_up(port)?;
        namespace::inside(&namespace, || {
            let inner = Netlink::open()?;
            inner.set_up(inner.index("lo")?)?;
            inner.set_up(inner.index(CARD)?)
        })?;
        Ok(machine)
    }

    /// One that was left by a process that is gone, to be removed.
    pub fn left(name: &str) -> Self {
        Self { name: name.to_owned() }
    }

    /// Where its namespace is.
    pub fn path(&self) -> PathBuf {
        namespace::path(&self.name)
    }

    /// Gives its card an address, and a router for everything else.
    ///
    /// # Errors
    /// When the kernel refuses one of them.
    pub fn set_address(&self, address: IpNet, router: Option<IpAddr>) -> io::Result<()> {
        namespace::inside(&namespace::open(&self.path())?, || {
            let inner = Netlink::open()?;
            let card = inner.index(CARD)?;
            inner.add_address(card, address)?;
            let Some(router) = router else { return Ok(()) };
            let everything = IpNet::new(if router.is_ipv4() { [0; 4].into() } else { [0; 16].into() }, 0);
            let to = everything.map_err(io::Error::other)?;
            inner.add_route(card, Route { to, gateway: Some(router), source: None, table: Table::Main })
        })
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // The other end of the cable goes with it.
        let _ = Netlink::open().and_then(|host| host.remove(&self.name));
        let _ = namespace::remove(&self.name);
    }
}

/// Does something in a network namespace that is new, with its loopback switched on: what is started there sees none of
/// this machine's interfaces and firewalls, and nobody sees it.
///
/// # Errors
/// When this user may not, and those of `act`.
pub fn in_new_network<T: Send>(act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    namespace::in_thread(|| {
        unshare(CloneFlags::CLONE_NEWNET)?;
        let inner = Netlink::open()?;
        inner.set_up(inner.index("lo")?)?;
        act()
    })
}
