//! The cables of a cluster: a switch in the control plane's namespace, a node on each port, no way out.
//!
//! Every cluster uses the same addresses, which nobody outside of its namespaces can see.

use std::net::Ipv4Addr;
use std::process::Command;

use super::site::{Site, run};

/// The control plane on the network of the nodes.
pub(super) const CONTROL_PLANE: Ipv4Addr = Ipv4Addr::new(10, 84, 0, 1);
pub(super) const SERVICES: &str = "10.96.0.0/16";
pub(super) const API_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
pub(super) const DNS_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
pub(super) const PODS: &str = "10.85.0.0/16";

/// A node on the network of the nodes.
pub(super) fn node_address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 84, 0, 10 + number)
}

/// The addresses of a node's pods.
pub(super) fn pods_of(number: u8) -> String {
    format!("10.85.{number}.0/24")
}

/// Makes the namespaces, the switch and the routes between pods of different nodes.
///
/// # Errors
/// When `ip` refuses one of them.
pub(super) fn lay(site: &Site, nodes: u8) -> anyhow::Result<()> {
    let hub = site.hub();
    ip(&["netns", "add", &hub])?;
    // A default route makes every address one that can be bound and dialled; nothing answers there.
    inside(&hub, "link set lo up")?;
    inside(&hub, "link add node0 type bridge")?;
    inside(&hub, &format!("address add {CONTROL_PLANE}/24 dev node0"))?;
    inside(&hub, "link set node0 up")?;
    inside(&hub, "route add default dev node0")?;
    for number in 1..=nodes {
        let node = site.node(number);
        let port = format!("port{number}");
        ip(&["netns", "add", &node])?;
        ip(&["link", "add", &port, "netns", &hub, "type", "veth", "peer", "name", "eth0", "netns", &node])?;
        inside(&hub, &format!("link set {port} master node0 up"))?;
        inside(&hub, &format!("route add {} via {}", pods_of(number), node_address(number)))?;
        inside(&node, "link set lo up")?;
        inside(&node, &format!("address add {}/24 dev eth0", node_address(number)))?;
        inside(&node, "link set eth0 up")?;
        inside(&node, &format!("route add default via {CONTROL_PLANE}"))?;
        for other in (1..=nodes).filter(|other| *other != number) {
            inside(&node, &format!("route add {} via {}", pods_of(other), node_address(other)))?;
        }
        run(in_namespace(&node, "sysctl").args(["-qw", "net.ipv4.ip_forward=1"]))?;
    }
    Ok(())
}

/// A bridge of that name on every node, all of them one network: where attachments of pods and virtual machines meet.
///
/// # Errors
/// When `ip` refuses it.
pub(super) fn lay_vlan(site: &Site, nodes: u8, name: &str) -> anyhow::Result<()> {
    let hub = site.hub();
    inside(&hub, &format!("link add {name} type bridge"))?;
    inside(&hub, &format!("link set {name} up"))?;
    for number in 1..=nodes {
        let node = site.node(number);
        let port = format!("{name}{number}");
        inside(&node, &format!("link add {name} type bridge"))?;
        inside(&node, &format!("link set {name} up"))?;
        ip(&["link", "add", &port, "netns", &hub, "type", "veth", "peer", "name", &port, "netns", &node])?;
        inside(&hub, &format!("link set {port} master {name} up"))?;
        inside(&node, &format!("link set {port} master {name} up"))?;
    }
    Ok(())
}

/// A machine with one address on such a network and no other way anywhere, such as a virtual machine.
///
/// # Errors
/// When `ip` refuses it.
pub(super) fn plug_in(site: &Site, vlan: &str, machine: &str, address: &str) -> anyhow::Result<()> {
    let (hub, namespace) = (site.hub(), site.machine(machine));
    ip(&["netns", "add", &namespace])?;
    ip(&[
        "link", "add", machine, "netns", &hub, "type", "veth", "peer", "name", "eth0", "netns", &namespace,
    ])?;
    inside(&hub, &format!("link set {machine} master {vlan} up"))?;
    inside(&namespace, "link set lo up")?;
    inside(&namespace, &format!("address add {address} dev eth0"))?;
    inside(&namespace, "link set eth0 up")
}

/// A command that runs in a network namespace. Not by `ip netns exec`: that mounts `/sys` anew, without its cgroups.
pub(super) fn in_namespace(namespace: &str, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{namespace}")).args(["--", program]);
    command
}

fn inside(namespace: &str, arguments: &str) -> anyhow::Result<()> {
    ip(&["-n", namespace].into_iter().chain(arguments.split(' ')).collect::<Vec<_>>())
}

fn ip(arguments: &[&str]) -> anyhow::Result<()> {
    run(Command::new("ip").args(arguments)).map(drop)
}
