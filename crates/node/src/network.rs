//! Pods on further networks: a pod with attachments has a network namespace of its own, with an interface on each network
//! and `eth0`, a cable to this machine.
//!
//! All that pods of this machine use is on its loopback: the API server, Services, other pods. So an attached pod has an
//! address of the loopback as every other has, only that it is behind the cable: in the pod all of 127.0.0.0/8 but
//! 127.0.0.1 is routed to the machine, on the machine the pod's address is routed to the pod, and `route_localnet` lets such
//! packets pass on the two ends of the cable and nowhere else. No firewall and no translation of addresses is needed.
//!
//! What there is on the machine is found by its name: the namespace and the interfaces by the pod's uid, bridges that were
//! made here by the remark on them. A bridge goes with the last of its ports.

mod bridge;
mod definition;
mod device;
mod machine;
mod message;
mod namespace;
mod netlink;
mod request;
mod sysctl;

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream},
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    sync::{Mutex, MutexGuard},
    thread::sleep,
    time::{Duration, Instant},
};

use causeway_base::lock::lock;
use ipnet::{IpNet, Ipv4Net};
use rustix::io::Errno;
use serde_json::{Value, json};

pub(crate) use self::{
    bridge::keep,
    definition::{Definition, parse as parse_definition},
    namespace::enter,
    request::{NETWORKS, Request, requests},
};
pub use self::{
    bridge::{bridge_of, idle_bridges, remove_idle_bridges},
    device::lead_loopback,
    machine::{CARD, Machine, in_new_network},
};
use self::{
    definition::Kind,
    netlink::{Mac, Netlink, Route, Table, Upper},
    sysctl::Family,
};

/// Where a pod's networks are told.
pub(crate) const STATUS: &str = "k8s.v1.cni.cncf.io/network-status";
const CABLE: &str = "eth0";
/// How long the search for others with the same address in IPv6 may take.
const SETTLE: Duration = Duration::from_secs(4);
/// An address in IPv6 that is not used yet, and one that somebody else has.
const TENTATIVE: u32 = 0x40;
const DUPLICATE: u32 = 0x08;

/// Interfaces are made and removed by one at a time: a bridge must not go while somebody is about to use it.
static TURN: Mutex<()> = Mutex::new(());

/// Why a pod can't be attached.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {source}{}", advice(source, *kind))]
pub(crate) struct Error {
    step: String,
    /// The kind of interface that was asked for, if that is what failed.
    kind: Option<&'static str>,
    source: io::Error,
}

/// What a pod's namespace shall have.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub uid: String,
    /// The pod's address.
    pub address: Ipv4Addr,
    /// The machine's, as the pod sees it.
    pub machine: Ipv4Addr,
    pub interfaces: Vec<Interface>,
    pub sysctls: Vec<(String, String)>,
}

/// An interface on a network.
#[derive(Clone, Debug)]
pub(crate) struct Interface {
    definition: String,
    name: String,
    kind: Kind,
    mtu: Option<u32>,
    mac: Option<Mac>,
    addresses: Vec<IpNet>,
    routes: Vec<(IpNet, Option<IpAddr>)>,
    sysctls: Vec<(String, String)>,
}

impl Interface {
    /// What a pod asks for, on the network that is defined.
    pub(crate) fn new(request: Request, definition: Definition) -> Self {
        let name = request.definition();
        let addresses = if request.addresses.is_empty() { definition.addresses } else { request.addresses };
        let first = addresses.iter().find_map(|address| match address {
            IpNet::V4(net) => Some(netlink::mac_of(net.addr())),
            IpNet::V6(_) => None,
        });
        let of_vlan = matches!(definition.kind, Kind::On { upper: Upper::Vlan { .. }, .. });
        let everything = request.default_routes.iter().map(|router| {
            let any = if router.is_ipv4() {
                IpNet::from(Ipv4Net::default())
            } else {
                IpNet::V6(ipnet::Ipv6Net::default())
            };
            (any, Some(*router))
        });
        Self {
            definition: name,
            name: request.interface,
            kind: definition.kind,
            mtu: definition.mtu,
            // Traffic of a VLAN is that of the interface below, which takes what is for its own address.
            mac: request.mac.or(definition.mac).or(first.filter(|_| !of_vlan)),
            addresses,
            routes: definition.routes.into_iter().chain(everything).collect(),
            sysctls: definition.sysctls,
        }
    }
}

/// Where a pod's namespace is; it need not be there.
pub(crate) fn path(uid: &str) -> PathBuf {
    namespace::path(&namespace_of(uid))
}

/// Whether a pod has a namespace.
pub(crate) fn is_there(uid: &str) -> bool {
    namespace::exists(&path(uid))
}

/// Connects to a port of a pod's own loopback, which only the pod itself reaches.
pub(crate) fn connect_inside(uid: &str, port: u16) -> io::Result<TcpStream> {
    let namespace = namespace::open(&path(uid))?;
    namespace::inside(&namespace, || {
        TcpStream::connect((Ipv4Addr::LOCALHOST, port))
            .or_else(|refused| TcpStream::connect((Ipv6Addr::LOCALHOST, port)).map_err(|_| refused))
    })
}

/// Makes a pod's namespace with all that is in it, anew if there was one; its `network-status`.
pub(crate) fn set_up(wanted: &Wanted) -> Result<Value, Error> {
    let turn = lock(&TURN);
    take_down(&wanted.uid, &turn)?;
    let made = build(wanted);
    if made.is_err() {
        let _ = take_down(&wanted.uid, &turn);
    }
    drop(turn);
    let status = made?;
    let settled = namespace::open(&path(&wanted.uid)).and_then(|namespace| {
        namespace::inside(&namespace, || {
            settle();
            Ok(())
        })
    });
    settled.map_err(failed("can't look at the pod's addresses"))?;
    Ok(status)
}

/// Removes a pod's namespace with all that is in it, and bridges that nobody needs any more.
pub(crate) fn tear_down(uid: &str) -> Result<(), Error> {
    // Most pods never had one, whatever the file of its name is.
    if !path(uid).exists() {
        return Ok(());
    }
    take_down(uid, &lock(&TURN))
}

fn take_down(uid: &str, _turn: &MutexGuard<'_, ()>) -> Result<(), Error> {
    let host = Netlink::open().map_err(failed("can't ask for the machine's interfaces"))?;
    let links = host.links().map_err(failed("can't list the machine's interfaces"))?;
    let own = link_prefix(uid);
    for link in links.iter().filter(|link| link.name.starts_with(&own)) {
        host.remove(&link.name).map_err(failed(format!("can't remove the interface {}", link.name)))?;
    }
    let name = namespace_of(uid);
    namespace::remove(&name).map_err(failed(format!("can't remove the network namespace {name}")))?;
    bridge::sweep(&host)
}

fn build(wanted: &Wanted) -> Result<Value, Error> {
    let name = namespace_of(&wanted.uid);
    let namespace =
        namespace::create(&name).map_err(failed(format!("can't make the network namespace {name}")))?;
    let host = Netlink::open().map_err(failed("can't ask for the machine's interfaces"))?;
    let cable = link_prefix(&wanted.uid) + "0";
    lay_cable(&host, &namespace, wanted, &cable)
        .map_err(failed("can't connect the pod's network namespace with the machine"))?;
    let mut status = vec![json!({
        "name": "causeway", "interface": CABLE, "ips": [wanted.address], "default": true, "dns": {},
    })];
    for (number, interface) in wanted.interfaces.iter().enumerate() {
        let port = format!("{}{}", link_prefix(&wanted.uid), number + 1);
        plug(&host, &namespace, interface, &port)?;
        let mac = namespace::inside(&namespace, || furnish(interface))
            .map_err(failed(format!("can't set up {} for {}", interface.name, interface.definition)))?;
        let addresses: Vec<IpAddr> = interface.addresses.iter().map(IpNet::addr).collect();
        status.push(json!({
            "name": interface.definition, "interface": interface.name, "ips": addresses, "mac": mac, "dns": {},
        }));
    }
    // Last, since they may be about interfaces; what the definitions say comes after what the pod says.
    let sysctls = || {
        for (key, value) in &wanted.sysctls {
            sysctl::write(key, value)?;
        }
        for interface in &wanted.interfaces {
            for (key, value) in &interface.sysctls {
                sysctl::write(&key.replace("IFNAME", &interface.name), value)?;
            }
        }
        Ok(())
    };
    namespace::inside(&namespace, sysctls).map_err(failed("can't set what the pod's network shall do"))?;
    Ok(Value::Array(status))
}

/// The way between the pod and everything on this machine's loopback.
fn lay_cable(host: &Netlink, namespace: &OwnedFd, wanted: &Wanted, name: &str) -> io::Result<()> {
    host.add_veth(name, CABLE, None, namespace.as_fd())?;
    let (pod, machine) = (Ipv4Net::from(wanted.address), Ipv4Net::from(wanted.machine));
    sysctl::interface(Family::V6, name, "disable_ipv6", "1")?;
    sysctl::interface(Family::V4, name, "route_localnet", "1")?;
    // Between two pods that are attached.
    sysctl::interface(Family::V4, name, "forwarding", "1")?;
    let index = host.index(name)?;
    host.set_up(index)?;
    namespace::inside(namespace, || {
        // The machine may forward, and what it does is what a new namespace begins with.
        sysctl::write("net.ipv4.ip_forward", "0")?;
        sysctl::interface(Family::V6, "all", "forwarding", "0")?;
        // Addresses and routes are those that are asked for.
        sysctl::interface(Family::V6, "default", "accept_ra", "0")?;
        let inner = Netlink::open()?;
        inner.set_up(inner.index("lo")?)?;
        sysctl::interface(Family::V6, CABLE, "disable_ipv6", "1")?;
        sysctl::interface(Family::V4, CABLE, "route_localnet", "1")?;
        let cable = inner.index(CABLE)?;
        inner.add_address(cable, pod.into())?;
        inner.set_up(cable)?;
        let source = Some(wanted.address.into());
        let to = |to: Ipv4Net, gateway: Option<Ipv4Addr>| Route {
            to: to.into(),
            gateway: gateway.map(IpAddr::V4),
            source,
            table: Table::Local,
        };
        inner.add_route(cable, to(machine, None))?;
        // The two halves are narrower than the pod's own network of the loopback, and 127.0.0.1 is narrower than they.
        for half in [Ipv4Addr::new(127, 0, 0, 0), Ipv4Addr::new(127, 128, 0, 0)] {
            let half = Ipv4Net::new(half, 9).map_err(io::Error::other)?;
            inner.add_route(cable, to(half, Some(wanted.machine)))?;
        }
        Ok(())
    })?;
    // Narrower than the network of the loopback here, too.
    let route =
        Route { to: pod.into(), gateway: None, source: Some(wanted.machine.into()), table: Table::Local };
    host.add_route(index, route)
}

/// Makes an interface of the namespace on its network.
fn plug(host: &Netlink, namespace: &OwnedFd, interface: &Interface, port: &str) -> Result<(), Error> {
    let definition = &interface.definition;
    match &interface.kind {
        Kind::Bridge { bridge } => {
            let plug = || {
                let found = bridge::ensure(host, bridge)?;
                host.add_veth(port, &interface.name, interface.mac, namespace.as_fd())?;
                sysctl::interface(Family::V6, port, "disable_ipv6", "1")?;
                let index = host.index(port)?;
                host.set_alias(index, &bridge::remark_of_port(&found))?;
                if let Some(mtu) = interface.mtu {
                    host.set_mtu(index, mtu)?;
                }
                host.set_master(index, found.index)?;
                host.set_up(index)
            };
            plug().map_err(Error::of(
                format!("can't attach the pod to bridge {bridge} of {definition}"),
                "bridge",
            ))
        }
        Kind::On { master, upper } => {
            let kind = if matches!(upper, Upper::Vlan { .. }) { "vlan" } else { "macvlan" };
            let plug = || {
                let lower = match master {
                    Some(name) => host.index(name)?,
                    None => host.index(&way_out()?)?,
                };
                host.add_upper(*upper, &interface.name, lower, interface.mac, namespace.as_fd())
            };
            let on = master.as_deref().unwrap_or("the interface of the default route");
            plug().map_err(Error::of(format!("can't attach the pod to {on} for {definition}"), kind))
        }
    }
}

/// Gives an interface its addresses and routes; its hardware address.
fn furnish(interface: &Interface) -> io::Result<String> {
    let inner = Netlink::open()?;
    let index = inner.index(&interface.name)?;
    if let Some(mtu) = interface.mtu {
        inner.set_mtu(index, mtu)?;
    }
    for address in &interface.addresses {
        inner.add_address(index, *address)?;
    }
    inner.set_up(index)?;
    for (to, gateway) in &interface.routes {
        inner.add_route(index, Route { to: *to, gateway: *gateway, source: None, table: Table::Main })?;
    }
    let mac = inner.link(&interface.name)?.and_then(|link| link.mac).unwrap_or_default();
    Ok(mac.map(|byte| format!("{byte:02x}")).join(":"))
}

/// Waits until the addresses in IPv6 can be used, or are known to be somebody else's.
fn settle() {
    let since = Instant::now();
    let is_open = |line: &str| {
        let flags = line.split_whitespace().nth(4).and_then(|flags| u32::from_str_radix(flags, 16).ok());
        flags.is_some_and(|flags| flags & TENTATIVE != 0 && flags & DUPLICATE == 0)
    };
    while since.elapsed() < SETTLE {
        let addresses = fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap_or_default();
        if !addresses.lines().any(is_open) {
            return;
        }
        sleep(Duration::from_millis(50));
    }
}

/// The interface of the machine's default route.
fn way_out() -> io::Result<String> {
    let routes = fs::read_to_string("/proc/net/route")?;
    let mut lines = routes.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let line = lines.find(|fields| fields.get(1) == Some(&"00000000") && fields.get(7) == Some(&"00000000"));
    let name = line.and_then(|fields| fields.first().map(|name| (*name).to_owned()));
    name.ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, "this machine has no default route: name the master")
    })
}

fn namespace_of(uid: &str) -> String {
    format!("causeway-{uid}")
}

/// How the names of a pod's interfaces on this machine begin. They are short, so a part of the uid has to do.
fn link_prefix(uid: &str) -> String {
    let digits: String = uid.chars().filter(char::is_ascii_alphanumeric).take(10).collect();
    format!("cw{digits}-")
}

impl Error {
    fn of(step: String, kind: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { step, kind: Some(kind), source }
    }
}

fn failed(step: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    move |source| Error { step: step.into(), kind: None, source }
}

/// What to do about it.
fn advice(error: &io::Error, kind: Option<&'static str>) -> String {
    match (error.raw_os_error().map(Errno::from_raw_os_error), kind) {
        (Some(Errno::PERM | Errno::ACCESS), _) => {
            "; only root may attach pods to networks: start `causeway up` as root, or use an address of 127.0.0.0/8, \
             which needs no attachment"
                .to_owned()
        }
        (Some(Errno::OPNOTSUPP), Some(kind)) => {
            format!("; this machine's kernel has no {kind} interfaces: load the module, or use another kind of attachment")
        }
        (Some(Errno::EXIST), Some("vlan")) => {
            "; another pod or this machine has that VLAN on the interface already: a bridge or macvlan can be shared"
                .to_owned()
        }
        _ if error.kind() == io::ErrorKind::NotFound && kind.is_some() => {
            "; make it, or correct master in the NetworkAttachmentDefinition".to_owned()
        }
        _ => String::new(),
    }
}
