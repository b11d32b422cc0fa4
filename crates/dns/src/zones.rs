//! The zones of a view, compiled: every name that exists leads to its records, which are encoded beforehand. Since every
//! answer repeats the question's name and points to it, the same bytes answer for a wildcard and in any case of letters.

mod reverse;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use causeway_ir::Pattern;
use causeway_ir::dns::{View, Zone};
use causeway_ir::server_name::normalise;

use crate::quick_hasher::QuickState;
use crate::wire::name;
use crate::wire::response::QUESTION;
use crate::wire::{CLASS_IN, kind};

/// All zones of a view.
#[derive(Default)]
pub(crate) struct Zones {
    /// In lower case and wire format, those too that have no records but names below.
    names: HashMap<Box<[u8]>, u32, QuickState>,
    nodes: Vec<Node>,
    apexes: Vec<Apex>,
    /// Bytes of the shortest name of a zone: what is shorter is in none.
    shortest: usize,
}

/// A name.
#[derive(Default)]
pub(crate) struct Node {
    apex: u32,
    /// It is of an open zone: without records it is asked elsewhere, and so is what is below.
    is_open: bool,
    /// The node of `*` below.
    wildcard: Option<u32>,
    sets: Vec<Set>,
}

/// The records of a name and type.
pub(crate) struct Set {
    pub(crate) kind: u16,
    pub(crate) count: u16,
    pub(crate) records: Vec<u8>,
}

/// The top of a zone.
struct Apex {
    /// Bytes of its name.
    len: usize,
    /// The SOA, whose pointers to the zone's name are missing.
    soa: Vec<u8>,
    /// Where they belong.
    pointers: [usize; 3],
    ttl: u32,
    negative_ttl: u32,
}

/// What there is for a name.
pub(crate) enum Found<'z> {
    /// The name exists, or a wildcard stands for it.
    Node(&'z Node),
    /// The name does not exist in this zone.
    Missing(&'z Node),
    /// No zone has it.
    Elsewhere,
}

impl Zones {
    pub(crate) fn new(view: &View, binds: &[SocketAddr]) -> Self {
        let mut zones = Self::default();
        // A zone within another takes its name from that one.
        let mut planned: Vec<&Zone> = view.zones.iter().collect();
        planned.sort_by_key(|zone| zone.domain.len());
        for zone in planned {
            zones.add_zone(zone, view, binds);
        }
        reverse::add(&mut zones, view);
        zones
    }

    /// How many names have records.
    pub(crate) fn count(&self) -> usize {
        self.nodes.iter().filter(|node| !node.sets.is_empty()).count()
    }

    /// Looks a name up, given in lower case.
    pub(crate) fn find(&self, name: &[u8]) -> Found<'_> {
        if let Some(&node) = self.names.get(name) {
            let node = &self.nodes[node as usize];
            return if node.is_open && node.sets.is_empty() { Found::Elsewhere } else { Found::Node(node) };
        }
        let mut above = name;
        while let Some(next) = name::parent(above) {
            above = next;
            if above.len() < self.shortest {
                break;
            }
            if let Some(&node) = self.names.get(above) {
                let encloser = &self.nodes[node as usize];
                return match encloser.wildcard {
                    Some(wildcard) => Found::Node(&self.nodes[wildcard as usize]),
                    None if encloser.is_open => Found::Elsewhere,
                    None => Found::Missing(encloser),
                };
            }
        }
        Found::Elsewhere
    }

    fn add_zone(&mut self, zone: &Zone, view: &View, binds: &[SocketAddr]) {
        let domain = normalise(&zone.domain);
        let default = format!("ns.{domain}");
        let server = zone.name_server.as_ref().map_or(default.clone(), |name| normalise(name));
        let [ttl, negative_ttl] = [zone.ttl, zone.negative_ttl].map(|ttl| ttl.as_secs() as u32);
        self.add_apex(&name::from_text(&domain), (&server, zone.open), ttl, negative_ttl);
        for record in &zone.records {
            let owner = match &record.name {
                Pattern::Exact(name) => name::from_text(name),
                Pattern::Below(domain) => [b"\x01*", &name::from_text(domain)[..]].concat(),
            };
            let ttl = record.ttl.map_or(ttl, |ttl| ttl.get().as_secs() as u32);
            self.add_addresses(&owner, &record.addresses, ttl);
        }
        if zone.name_server.is_none()
            && !zone.open
            && !matches!(self.find(&name::from_text(&default)), Found::Node(_))
        {
            let among = |address: &IpAddr| {
                !address.is_unspecified()
                    && (view.sources.is_empty()
                        || view.sources.iter().any(|network| network.contains(address)))
            };
            let addresses: Vec<IpAddr> = binds.iter().map(SocketAddr::ip).filter(among).collect();
            self.add_addresses(&name::from_text(&default), &addresses, ttl);
        }
    }

    /// Adds the top of a zone with its SOA, and with its NS unless the zone is open.
    fn add_apex(&mut self, domain: &[u8], (server, is_open): (&str, bool), ttl: u32, negative_ttl: u32) {
        let apex = Apex::new(domain, server, ttl, negative_ttl);
        // The names between it and the zone that it is in exist too.
        name::parent(domain).and_then(|above| self.node(above));
        let is_first = self.apexes.is_empty();
        self.shortest = if is_first { domain.len() } else { self.shortest.min(domain.len()) };
        let index = self.apexes.len() as u32;
        self.apexes.push(apex);
        let node = self.nodes.len() as u32;
        self.nodes.push(Node { apex: index, is_open, ..Node::default() });
        self.names.insert(domain.into(), node);
        if !is_open {
            self.add(domain, kind::NS, &name::from_text(server), ttl);
        }
    }

    fn add_addresses(&mut self, owner: &[u8], addresses: &[IpAddr], ttl: u32) {
        for (i, address) in addresses.iter().enumerate() {
            // The same address twice is one record.
            if addresses[..i].contains(address) {
                continue;
            }
            match address {
                IpAddr::V4(address) => self.add(owner, kind::A, &address.octets(), ttl),
                IpAddr::V6(address) => self.add(owner, kind::AAAA, &address.octets(), ttl),
            }
        }
    }

    fn add(&mut self, owner: &[u8], kind: u16, data: &[u8], ttl: u32) {
        let Some(node) = self.node(owner) else { return };
        let sets = &mut self.nodes[node as usize].sets;
        let at = sets.iter().position(|set| set.kind == kind).unwrap_or_else(|| {
            sets.push(Set { kind, count: 0, records: Vec::new() });
            sets.len() - 1
        });
        let set = &mut sets[at];
        set.count += 1;
        push_record(&mut set.records, kind, data, ttl);
    }

    /// The node of a name, made together with those between it and its zone's top; none if no zone has it.
    fn node(&mut self, name: &[u8]) -> Option<u32> {
        if let Some(&node) = self.names.get(name) {
            return Some(node);
        }
        let above = self.node(name::parent(name)?)?;
        let node = self.nodes.len() as u32;
        let Node { apex, is_open, .. } = self.nodes[above as usize];
        self.nodes.push(Node { apex, is_open, ..Node::default() });
        self.names.insert(name.into(), node);
        if name.starts_with(b"\x01*") {
            self.nodes[above as usize].wildcard = Some(node);
        }
        Some(node)
    }

    /// The SOA of a node's zone in an answer to a name of this length, written by `place`.
    pub(crate) fn soa<'o>(
        &self,
        node: &Node,
        name_len: usize,
        negative: bool,
        place: impl FnOnce(&[u8]) -> Option<&'o mut [u8]>,
    ) {
        let apex = &self.apexes[node.apex as usize];
        let Some(record) = place(&apex.soa) else { return };
        let pointer = 0xc000 | (crate::wire::HEADER + name_len - apex.len) as u16;
        for at in apex.pointers.iter().filter(|at| **at != usize::MAX) {
            record[*at..*at + 2].copy_from_slice(&pointer.to_be_bytes());
        }
        let ttl = if negative { apex.ttl.min(apex.negative_ttl) } else { apex.ttl };
        record[6..10].copy_from_slice(&ttl.to_be_bytes());
    }

    /// The SOA of the zone of a node that this name led to, for an answer to another name: all names in it are whole.
    pub(crate) fn whole_soa(&self, node: &Node, name: &[u8]) -> Vec<u8> {
        let apex = &self.apexes[node.apex as usize];
        let domain = &name[name.len() - apex.len..];
        let (mut record, mut from) = (Vec::new(), 0);
        for &at in apex.pointers.iter().filter(|at| **at != usize::MAX) {
            record.extend(&apex.soa[from..at]);
            record.extend(domain);
            from = at + 2;
        }
        record.extend(&apex.soa[from..]);
        let fixed = domain.len() + 10;
        let length = (record.len() - fixed) as u16;
        record[fixed - 6..fixed - 2].copy_from_slice(&apex.ttl.min(apex.negative_ttl).to_be_bytes());
        record[fixed - 2..fixed].copy_from_slice(&length.to_be_bytes());
        record
    }

    /// Whether the node is the top of its zone, asked by a name of this length.
    pub(crate) fn is_apex(&self, node: &Node, name_len: usize) -> bool {
        self.apexes[node.apex as usize].len == name_len
    }
}

impl Node {
    /// The records of a type; for any type those of one.
    pub(crate) fn set(&self, kind: u16) -> Option<&Set> {
        // RFC 8482: one set is enough of an answer to ANY, which is asked by attackers above all.
        self.sets.iter().find(|set| set.kind == kind || kind == kind::ANY)
    }
}

impl Apex {
    fn new(domain: &[u8], server: &str, ttl: u32, negative_ttl: u32) -> Self {
        let mut data = Vec::new();
        let mut pointers = [0, usize::MAX, usize::MAX];
        const FRONT: usize = 12;
        let server = name::from_text(server);
        match server.strip_suffix(domain).filter(|front| !front.is_empty()) {
            Some(front) => {
                data.extend(front);
                pointers[1] = FRONT + data.len();
                data.extend([0, 0]);
            }
            None => data.extend(server),
        }
        data.extend(b"\x0ahostmaster");
        pointers[2] = FRONT + data.len();
        data.extend([0, 0]);
        let serial = jiff::Timestamp::now().as_second() as u32;
        for number in [serial, 3600, 600, 86_400, negative_ttl] {
            data.extend(number.to_be_bytes());
        }
        let mut soa = Vec::new();
        push_record(&mut soa, kind::SOA, &data, ttl);
        Self { len: domain.len(), soa, pointers, ttl, negative_ttl }
    }
}

/// Appends a record whose name is that of the question.
fn push_record(to: &mut Vec<u8>, kind: u16, data: &[u8], ttl: u32) {
    to.extend(QUESTION);
    to.extend(kind.to_be_bytes());
    to.extend(CLASS_IN.to_be_bytes());
    to.extend(ttl.to_be_bytes());
    to.extend((data.len() as u16).to_be_bytes());
    to.extend(data);
}
