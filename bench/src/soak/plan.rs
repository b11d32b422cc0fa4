//! The plan that the engine runs: a part that never changes, and a part that each generation makes anew.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use super::dice::Dice;

/// Routes that stay as they are for the whole run.
pub const STEADY: usize = 100;
/// Routes that may be there or not, from one generation to the next.
const CHANGING: usize = 200;
/// Listeners that may be there or not.
const EXTRA: usize = 4;
/// A route that was removed stays away longer than it may drain.
const AWAY: u64 = 4;

/// How long connections of a removed route may stay.
pub const DRAIN: Duration = Duration::from_secs(4);
pub const HANDSHAKE: Duration = Duration::from_secs(5);
/// Of the cluster behind `brief.test`, and of datagrams.
pub const IDLE: Duration = Duration::from_secs(8);

/// Where the endpoints are.
pub struct Endpoints {
    /// They are never killed; their ids are their places.
    pub steady: Vec<SocketAddr>,
    pub shaky: Vec<SocketAddr>,
    pub resetting: SocketAddr,
    pub datagrams: Vec<SocketAddr>,
}

/// A route that changes.
#[derive(Clone)]
pub struct Changing {
    /// Which of its names it has.
    variant: u64,
    /// Which of the steady endpoints it has, as bits.
    endpoints: u8,
}

impl Changing {
    pub fn has(&self, id: u16) -> bool {
        self.endpoints >> id & 1 == 1
    }

    pub fn name(&self, number: usize) -> String {
        format!("c{number}-{}.changing.test", self.variant)
    }
}

/// What a generation of the plan has beside what never changes.
#[derive(Default)]
pub struct Generation {
    pub number: u64,
    pub routes: BTreeMap<usize, Changing>,
    /// When a removed route may come back.
    away: BTreeMap<usize, u64>,
    extra: Vec<usize>,
}

impl Generation {
    /// About a twentieth of the routes comes, goes, or changes its name or endpoints.
    pub fn next(&mut self, dice: &mut Dice) {
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
    pub fn has_extra<'a>(&self, names: impl Iterator<Item = &'a str>) -> bool {
        let mut wanted: Vec<String> = self.extra.iter().map(|extra| format!("extra{extra}")).collect();
        let mut found: Vec<&str> = names.filter(|name| name.starts_with("extra")).collect();
        wanted.sort();
        found.sort_unstable();
        wanted == found
    }

    /// A name that only this generation has.
    pub fn mark(&self) -> String {
        format!("generation-{}.test", self.number)
    }

    pub fn text(&self, endpoints: &Endpoints) -> String {
        let mut text = format!(
            "limits: {{handshakeTimeout: {}s}}\ndrainTimeout: {}s\nlisteners:\n\
             - {{name: plain, bind: '127.0.0.1:0', protocol: {{tcp: {{name: all, action: {{forward: steady}}}}}}}}\n\
             - {{name: datagrams, bind: '127.0.0.1:0', protocol: {{udp: {{name: all, action: {{forward: datagrams}}}}}}}}\n",
            HANDSHAKE.as_secs(),
            DRAIN.as_secs()
        );
        for extra in &self.extra {
            let _ = writeln!(
                text,
                "- {{name: extra{extra}, bind: '127.0.0.1:0', protocol: {{tcp: {{name: all, action: {{forward: steady}}}}}}}}"
            );
        }
        text.push_str(
            "- name: tls\n  bind: 127.0.0.1:0\n  protocol:\n    tls:\n      noServerName: {forward: steady}\n      routes:\n",
        );
        for i in 0..STEADY {
            let _ = writeln!(
                text,
                "      - {{name: s{i}, serverNames: [s{i}.steady.test, a{i}.steady.test], action: {{forward: steady}}}}"
            );
        }
        for (name, server_name, cluster) in [
            ("wild", "*.wild.test", "steady"),
            ("shaky", "shaky.test", "shaky"),
            ("brief", "brief.test", "brief"),
            ("resetting", "resetting.test", "resetting"),
            ("mark", &self.mark(), "steady"),
        ] {
            let _ = writeln!(
                text,
                "      - {{name: {name}, serverNames: ['{server_name}'], action: {{forward: {cluster}}}}}"
            );
        }
        for (number, route) in &self.routes {
            let _ = writeln!(
                text,
                "      - {{name: c{number}, serverNames: [{}], action: {{forward: c{number}}}}}",
                route.name(*number)
            );
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

fn cluster<'a>(text: &mut String, name: &str, addresses: impl Iterator<Item = &'a SocketAddr>, more: &str) {
    let list: Vec<String> = addresses.map(|address| format!("{{address: '{address}'}}")).collect();
    let _ = writeln!(text, "- {{name: {name}, endpoints: [{}], {more}}}", list.join(", "));
}
