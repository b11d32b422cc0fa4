//! Bridges of this machine, and the ports of pods on them.
//!
//! The remark on a bridge says that it was made here; it goes when nobody uses it any more. The remark on a port says which
//! bridge it is of: it is plugged in again when that was made anew, and while it is away or down, so is the port, and the
//! pod sees that it has no carrier.

use std::{io, time::Duration};

use causeway_base::lock::lock;
use rustix::process::geteuid;
use tokio::{task::spawn_blocking, time::interval};
use tokio_util::sync::CancellationToken;

use super::{
    Error, TURN, failed, link_prefix,
    netlink::{Link, Netlink, UNNAMED},
    sysctl::{self, Family},
};

/// The remark on bridges that were made here.
const MADE_HERE: &str = "made by causeway";
/// How the remarks on ports begin.
const PORT_OF: &str = "port of ";
/// How often it is looked whether pods are plugged in.
const LOOK: Duration = Duration::from_secs(2);

/// The bridge of that name, switched on; one that is made now goes when it has no ports any more.
pub(super) fn ensure(host: &Netlink, name: &str) -> io::Result<Link> {
    let mut bridge = host.link(name)?;
    if bridge.is_none() {
        host.add_bridge(name, MADE_HERE)?;
        bridge = host.link(name)?;
    }
    let Some(bridge) = bridge.filter(Link::is_bridge) else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "the interface {name} of this machine is not a bridge; name one, or use macvlan with it as master"
            ),
        ));
    };
    if is_made_here(&bridge) && !bridge.is_up {
        // The machine itself is not on that network: it must not take routes from whoever offers some there, nor what is
        // sent to one of its addresses from there.
        sysctl::interface(Family::V6, name, "disable_ipv6", "1")?;
        sysctl::interface(Family::V4, name, "rp_filter", "1")?;
    }
    host.set_up(bridge.index)?;
    Ok(bridge)
}

fn is_made_here(bridge: &Link) -> bool {
    bridge.alias.as_deref() == Some(MADE_HERE)
}

/// Bridges that were made here for pods, and that nobody uses any more: nothing is plugged in, and nobody has given them an
/// address or put an interface on them.
///
/// # Errors
/// When the machine's interfaces can't be listed.
pub fn idle_bridges() -> io::Result<Vec<String>> {
    let host = Netlink::open()?;
    let (links, addressed) = (host.links()?, host.addressed()?);
    let is_ours = |link: &&Link| is_made_here(link) || link.name.starts_with(UNNAMED);
    let is_idle = |bridge: &&Link| {
        let on = Some(bridge.index);
        !addressed.contains(&bridge.index) && !links.iter().any(|link| link.master == on || link.lower == on)
    };
    let idle = links.iter().filter(is_ours).filter(is_idle);
    Ok(idle.map(|bridge| bridge.name.clone()).collect())
}

/// The bridge of this machine that a pod is plugged into, by the pod's uid.
pub fn bridge_of(uid: &str) -> Option<String> {
    let links = Netlink::open().and_then(|host| host.links()).ok()?;
    let port = links.iter().find(|link| is_port(link) && link.name.starts_with(&link_prefix(uid)))?;
    links.iter().find(|link| Some(link.index) == port.master).map(|bridge| bridge.name.clone())
}

/// Removes bridges that were made here and had other ports when the last pod on them went, but no longer.
pub fn remove_idle_bridges() {
    let _turn = lock(&TURN);
    let swept = Netlink::open()
        .map_err(failed("can't ask for the machine's interfaces"))
        .and_then(|host| sweep(&host));
    if let Err(error) = swept {
        tracing::debug!(%error, "bridges that nobody uses may be left");
    }
}

/// Removes bridges that nobody uses any more.
pub(super) fn sweep(host: &Netlink) -> Result<(), Error> {
    for bridge in idle_bridges().map_err(failed("can't list the machine's interfaces"))? {
        host.remove(&bridge).map_err(failed(format!("can't remove the bridge {bridge}")))?;
    }
    Ok(())
}

/// Keeps pods plugged in until `shutdown`.
pub(crate) async fn keep(shutdown: CancellationToken) {
    if !geteuid().is_root() {
        return;
    }
    let mut look = interval(LOOK);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = look.tick() => {}
        }
        if let Ok(Err(error)) = spawn_blocking(plug_in_again).await {
            tracing::debug!(%error, "pods may be off their networks");
        }
    }
}

/// Sees to the ports of bridges that were removed, made anew, or switched off and on.
fn plug_in_again() -> Result<(), Error> {
    let _turn = lock(&TURN);
    let host = Netlink::open().map_err(failed("can't ask for the machine's interfaces"))?;
    let links = host.links().map_err(failed("can't list the machine's interfaces"))?;
    for port in links.iter().filter(|link| is_port(link)) {
        let (name, is_made_here) = bridge_in(port.alias.as_deref().unwrap_or_default());
        let found = links.iter().find(|link| link.name == name && link.is_bridge());
        let plug_in = || {
            let bridge = match found {
                Some(bridge) => Some(bridge.clone()),
                // What was somebody else's is theirs to make again.
                None if is_made_here => {
                    ensure(&host, name)?;
                    host.link(name)?
                }
                None => None,
            };
            if let Some(bridge) = bridge.as_ref().filter(|bridge| port.master != Some(bridge.index)) {
                tracing::warn!(
                    port = port.name,
                    bridge = name,
                    "a pod was off its bridge, and is plugged in again"
                );
                host.set_master(port.index, bridge.index)?;
            }
            match (bridge.is_some_and(|bridge| bridge.is_up), port.is_up) {
                (true, false) => host.set_up(port.index),
                (false, true) => {
                    tracing::warn!(port = port.name, bridge = name, "the bridge of a pod is away or down");
                    host.set_down(port.index)
                }
                _ => Ok(()),
            }
        };
        if let Err(error) = plug_in() {
            tracing::debug!(port = port.name, bridge = name, %error, "a pod can't be plugged in");
        }
    }
    Ok(())
}

/// Whether an interface is that of a pod on a bridge.
fn is_port(link: &Link) -> bool {
    link.name.starts_with("cw") && link.alias.as_deref().is_some_and(|alias| alias.starts_with(PORT_OF))
}

/// The bridge that the remark on a port names, and whether that was made here.
fn bridge_in(remark: &str) -> (&str, bool) {
    let name = remark.strip_prefix(PORT_OF).unwrap_or_default();
    name.strip_suffix(MADE_HERE).map_or((name, false), |name| (name.trim_end(), true))
}

/// The remark on a port of a bridge.
pub(super) fn remark_of_port(bridge: &Link) -> String {
    let whose = if is_made_here(bridge) { MADE_HERE } else { "" };
    format!("{PORT_OF}{} {whose}", bridge.name).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_remembers_its_bridge() {
        for alias in [None, Some(MADE_HERE)] {
            let bridge = Link { name: "br.7".to_owned(), alias: alias.map(str::to_owned), ..Link::default() };
            let remark = remark_of_port(&bridge);
            assert_eq!(bridge_in(&remark), ("br.7", alias.is_some()));
            let port = Link { name: "cw0123456789-1".to_owned(), alias: Some(remark), ..Link::default() };
            assert!(is_port(&port));
            assert!(!is_port(&Link { name: "eth0".to_owned(), ..port.clone() }));
            assert!(!is_port(&Link { alias: None, ..port }));
        }
    }
}
