//! A firewall of this machine in the way: with `br_netfilter`, what passes between two ports of a bridge is held to the rules
//! for what the machine forwards, and Docker makes these drop whatever is not its own; and what pods send to the machine over
//! their cables is held to those for what comes in.

use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::time::Duration;

use causeway_base::well_known::MACHINE_ADDRESS;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::commands::doctor::finding::Finding;
use crate::commands::doctor::vantage::Vantage;

/// Whether rules are asked for what passes over bridges.
const SWITCH: &str = "/proc/sys/net/bridge/bridge-nf-call-iptables";
/// Nobody listens there: a machine that is reached says no.
const PORT: u16 = 9;
const WAIT: Duration = Duration::from_secs(1);

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Somebody answered, be it with a refusal.
    Answered,
    /// Who should answer is there, by its answer to ARP, and nothing else of it comes.
    Dropped,
    /// Nobody is there.
    Silence,
}

/// Looks whether packets pass from a pod to this machine, and to another server that is on the network here.
pub(super) fn examine(from: &Vantage, neighbour: Option<IpAddr>) -> Vec<Finding> {
    let mut found = Vec::new();
    match from.work(|| reach(MACHINE_ADDRESS.into())) {
        Ok(Reach::Dropped) => found.push(of_cable(&rules())),
        Ok(_) => {}
        Err(error) => {
            return vec![Finding::unchecked(format!(
                "whether a firewall filters the network was not tried: the network namespace of pod {} can't be entered from \
                 here ({error})",
                from.pod
            ))];
        }
    }
    let Some(to) = neighbour else { return found };
    let rules = rules();
    let is_asked = fs::read_to_string(SWITCH).is_ok_and(|text| text.trim() == "1") && may_drop(&rules);
    match (from.work(|| reach(to)), from.bridge()) {
        (Ok(Reach::Dropped), Some(bridge)) if is_asked => found.push(of_bridge(&bridge, &rules)),
        (Ok(Reach::Dropped | Reach::Silence), on) => found.push(of_network(to, &from.pod, on.as_deref())),
        (Ok(Reach::Answered) | Err(_), _) => {}
    }
    found
}

/// The rules as iptables prints them; none where it is not there.
fn rules() -> String {
    let printed = Command::new("iptables").args(["-w", "-S"]).output();
    printed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

/// Tries to reach a neighbour.
async fn reach(to: IpAddr) -> Reach {
    let is_silent = match timeout(WAIT, TcpStream::connect((to, PORT))).await {
        Ok(Err(error)) => error.kind() != ErrorKind::ConnectionRefused,
        Ok(Ok(_)) => false,
        Err(_) => true,
    };
    let neighbours = fs::read_to_string("/proc/thread-self/net/arp").unwrap_or_default();
    match to {
        _ if !is_silent => Reach::Answered,
        IpAddr::V4(to) if is_neighbour(&neighbours, to) => Reach::Dropped,
        _ => Reach::Silence,
    }
}

/// Whether the kernel's table has a card for an address.
fn is_neighbour(table: &str, address: Ipv4Addr) -> bool {
    let mut lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let address = address.to_string();
    lines.any(|fields| fields.first() == Some(&address.as_str()) && fields.get(2) == Some(&"0x2"))
}

/// Whether there is a rule that drops anything; where nobody prints the rules there may be.
fn may_drop(rules: &str) -> bool {
    rules.is_empty() || rules.lines().any(|line| line.contains("DROP") || line.contains("REJECT"))
}

fn has(rules: &str, wanted: &str) -> bool {
    rules.lines().any(|line| line == wanted)
}

/// What pods send to the machine they are on.
fn of_cable(rules: &str) -> Finding {
    let why = if has(rules, "-P INPUT DROP") { ": the policy of INPUT is DROP" } else { "" };
    Finding::bad(
        format!(
            "a firewall of this machine drops what attached pods send to it, so that they reach neither the API server nor \
             Services nor resolvers{why}"
        ),
        "iptables -I INPUT -i cw+ -d 127.0.0.0/8 -j ACCEPT",
    )
}

/// What passes between pods and virtual machines.
fn of_bridge(bridge: &str, rules: &str) -> Finding {
    let is_docker = has(rules, "-P FORWARD DROP");
    let why = if is_docker { ", and the policy of FORWARD is DROP, as Docker sets it" } else { "" };
    let chain = if has(rules, "-N DOCKER-USER") { "DOCKER-USER" } else { "FORWARD" };
    Finding::bad(
        format!(
            "a firewall of this machine drops what passes over bridge {bridge}: its rules are asked for bridges, too \
             (net.bridge.bridge-nf-call-iptables is 1){why}"
        ),
        // The second is for what attached pods send to each other over their cables.
        format!(
            "iptables -I {chain} -i {bridge} -o {bridge} -j ACCEPT; iptables -I {chain} -i cw+ -o cw+ -j ACCEPT"
        ),
    )
}

/// What passes between servers of the network, dropped by something else.
fn of_network(to: IpAddr, pod: &str, bridge: Option<&str>) -> Finding {
    let over = bridge.map_or_else(|| "the network".to_owned(), |bridge| format!("bridge {bridge}"));
    Finding::bad(
        format!(
            "{to}, another server of this Infra, is not reached from pod {pod}: something drops what passes over {over}"
        ),
        "see what filters it: `nft list ruleset` (tables of the families bridge and netdev), `ebtables -L`, and `bridge -d \
         link` (ports that are isolated)",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_is_for_the_chain_that_is_there() {
        let docker =
            "-P INPUT ACCEPT\n-P FORWARD DROP\n-N DOCKER\n-N DOCKER-USER\n-A FORWARD -j DOCKER-USER\n";
        for (rules, words) in [
            (docker, ["policy of FORWARD is DROP", "iptables -I DOCKER-USER -i lab0 -o lab0 -j ACCEPT"]),
            ("-P FORWARD DROP\n", ["policy of FORWARD is DROP", "iptables -I FORWARD -i lab0"]),
            ("", ["drops what passes over bridge lab0", "iptables -I FORWARD -i lab0"]),
        ] {
            let said = format!("{:?}", of_bridge("lab0", rules));
            assert!(words.iter().all(|word| said.contains(word)), "{said}");
        }
    }

    #[test]
    fn rules_that_take_everything_are_not_the_cause() {
        assert!(!may_drop("-P INPUT ACCEPT\n-P FORWARD ACCEPT\n-P OUTPUT ACCEPT\n"));
        assert!(may_drop("-P FORWARD DROP\n") && may_drop("-A FORWARD -i lab0 -j REJECT\n") && may_drop(""));
    }

    #[test]
    fn a_neighbour_has_a_card() {
        let table = "IP address       HW type     Flags       HW address            Mask     Device\n\
                     192.168.100.3    0x1         0x2         0a:58:c0:a8:64:03     *        net1\n\
                     192.168.100.4    0x1         0x0         00:00:00:00:00:00     *        net1\n";
        let is_known = |last| is_neighbour(table, Ipv4Addr::new(192, 168, 100, last));
        assert!(is_known(3) && !is_known(4) && !is_known(5));
    }
}
