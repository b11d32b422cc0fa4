//! The plan that the engine runs: a part that never changes, and a part that each generation makes anew.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use super::dice::Dice;

/// Routes that stay as they are for the whole run.
pub(crate) const STEADY: usize = 100;
/// Routes that may be there or not, from one generation to the next.
const CHANGING: usize = 200;
/// Listeners that may be there or not.
const EXTRA: usize = 4;
/// A route that was removed stays away longer than it may drain.
const AWAY: u64 = 4;

/// How long connections of a removed route may stay.
pub(crate) const DRAIN: Duration = Duration::from_secs(4);
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(5);
/// Of the cluster behind `brief.test`, and of datagrams.
pub(crate) const IDLE: Duration = Duration::from_secs(8);

/// Where the endpoints are.
pub(crate) struct Endpoints {
    /// They are never killed; their ids are their places.
    pub(crate) steady: Vec<SocketAddr>,
    pub(crate) shaky: Vec<SocketAddr>,
    pub(crate) resetting: SocketAddr,
    pub(crate) datagrams: Vec<SocketAddr>,
}

/// A route that changes.
#[derive(Clone)]
pub(crate) struct Changing {
    /// Which of its names it has.
    variant: u64,
    /// Which of the steady endpoints it has, as bits.
    endpoints: u8,
}

impl Changing {
    pub(crate) fn has(&self, id: u16) -> bool {
        self.endpoints >> id & 1 == 1
    }

    pub(crate) fn name(&self, number: usize) -> String {
        format!("c{number}-{}.changing.test", self.variant)
    }
}

/// What a generation of the plan has beside what never changes.
#[derive(Default)]
pub(crate) struct Generation {
    pub(crate) number: u64,
    pub(crate) routes: BTreeMap<usize, Changing>,
    /// When a removed route may come back.
    away: BTreeMap<usize, u64>,
    extra: Vec<usize>,
}

impl Generation {
    /// About a twentieth of the routes comes, goes, or changes its name or endpoints.
    pub(crate) fn next(&mut self, dice: &mut Dice) {
        self.number += 1;
        for route in 0..CHANGING {
            let known = self.routes.contains_key(&route);
            if known && !dice.once_in(20) {
                continue;
            }
            let rests = self.away.get(&route).is_some_and(|until| self.number < *until);
            if known && dice.once_in(2) {
                self.routes.remove(&route);
                self.away.insert(route, self.number + AWAY);
            } else if !rests && (known || dice.once_in(5)) {
                let endpoints = 1 + dice.below(7) as u8;
                self.routes.insert(route, Changing { variant: dice.next() % 1000, endpoints });
            }
        }
        self.extra = (0..EXTRA).filter(|_| dice.once_in(2)).collect();
    }

    /// Whether these are the names of its listeners that come and go.
    pub(crate) fn has_extra<'a>(&self, names: impl Iterator<Item = &'a str>) -> bool {
        let mut wanted: Vec<String> = self.extra.iter().map(|extra| format!("extra{extra}")).collect();
        let mut found: Vec<&str> = names.filter(|name| name.starts_with("extra")).collect();
        wanted.sort();
        found.sort_unstable();
        wanted == found
    }

    /// A name that only this generation has.
    pub(crate) fn mark(&self) -> String {
        format!("generation-{}.test", self.number)
    }

    pub(crate) fn text(&self, endpoints: &Endpoints) -> String {
        let mut text = format!(
            "limits: {{handshakeTimeout: {}s}}\ndrainTimeout: {}s\nlisteners:\n\
             {}{}",
            HANDSHAKE.as_secs(),
            DRAIN.as_secs(),
            listener("plain", "tcp", "steady"),
            listener("datagrams", "udp", "datagrams")
        );
        for extra in &self.extra {
            text.push_str(&listener(&format!("extra{extra}"), "tcp", "steady"));
        }
        text.push_str(
            "- name: tls\n  bind: 127.0.0.1:0\n  protocol:\n    tls:\n      noServerName: {forward: steady}\n      \
             routes:\n",
        );
        for i in 0..STEADY {
            route(&mut text, &format!("s{i}"), &format!("s{i}.steady.test, a{i}.steady.test"), "steady");
        }
        for (name, server_names, cluster) in [
            ("wild", "'*.wild.test'", "steady"),
            ("shaky", "shaky.test", "shaky"),
            ("brief", "brief.test", "brief"),
            ("resetting", "resetting.test", "resetting"),
            ("mark", &self.mark(), "steady"),
        ] {
            route(&mut text, name, server_names, cluster);
        }
        for (number, changing) in &self.routes {
            let name = format!("c{number}");
            route(&mut text, &name, &changing.name(*number), &name);
        }
        text.push_str("clusters:\n");
        let idle = IDLE.as_secs();
        for (name, addresses, more) in [
            ("steady", &endpoints.steady[..], "policy: leastConnections"),
            ("shaky", &endpoints.shaky, "ejection: {time: 2s}"),
            ("brief", &endpoints.steady, &format!("idleTimeout: {idle}s")),
            ("resetting", &[endpoints.resetting], "policy: sourceHash"),
            ("datagrams", &endpoints.datagrams, &format!("idleTimeout: {idle}s")),
        ] {
            cluster(&mut text, name, addresses.iter(), more);
        }
        for (number, route) in &self.routes {
            let addresses = endpoints.steady.iter().enumerate();
            let addresses = addresses.filter(|(id, _)| route.has(*id as u16)).map(|(_, address)| address);
            cluster(&mut text, &format!("c{number}"), addresses, "policy: roundRobin");
        }
        text
    }
}

/// A listener that does not look into what it gets.
fn listener(name: &str, protocol: &str, cluster: &str) -> String {
    format!(
        "- {{name: {name}, bind: '127.0.0.1:0', protocol: {{{protocol}: {{name: all, action: {{forward: {cluster}}}}}}}}}\n"
    )
}

fn route(text: &mut String, name: &str, server_names: &str, cluster: &str) {
    let _ = writeln!(
        text,
        "      - {{name: {name}, serverNames: [{server_names}], action: {{forward: {cluster}}}}}"
    );
}

fn cluster<'a>(text: &mut String, name: &str, addresses: impl Iterator<Item = &'a SocketAddr>, more: &str) {
    let list: Vec<String> = addresses.map(|address| format!("{{address: '{address}'}}")).collect();
    let _ = writeln!(text, "- {{name: {name}, endpoints: [{}], {more}}}", list.join(", "));
}
