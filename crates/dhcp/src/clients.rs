//! Who is served, by what name, and who has an address of its own.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{Ipv4Addr, Ipv6Addr};

use causeway_ir::Name;
use causeway_ir::dhcp::DhcpPlan;

/// What the plan says of clients.
pub(crate) struct Clients {
    /// `None` serves everybody.
    known: Option<HashMap<[u8; 6], Option<Name>>>,
    v4: Owners<Ipv4Addr>,
    v6: Owners<Ipv6Addr>,
}

/// The addresses of one client, each with the name that it has there.
type Own<A> = Vec<(A, Option<Name>)>;

/// Addresses of one family with one owner each.
struct Owners<A> {
    by_id: HashMap<Box<[u8]>, Own<A>>,
    by_hardware: HashMap<[u8; 6], Own<A>>,
}

/// An address that is one client's.
struct Found<'a, A> {
    address: A,
    name: Option<&'a Name>,
    by_id: bool,
}

impl<A: Copy + Hash> Owners<A> {
    fn find(&self, id: &[u8], hardware: &[u8], is_here: impl Fn(A) -> bool) -> Option<Found<'_, A>> {
        let by_hardware = || <[u8; 6]>::try_from(hardware).ok().and_then(|card| self.by_hardware.get(&card));
        let lists = [(self.by_id.get(id), true), (by_hardware(), false)].into_iter();
        let mut all = lists.flat_map(|(list, by_id)| list.into_iter().flatten().map(move |own| (own, by_id)));
        let ((address, name), by_id) = all.find(|((address, _), _)| is_here(*address))?;
        Some(Found { address: *address, name: name.as_ref(), by_id })
    }
}

/// What the plan says of one client.
pub(crate) struct Known<'a, A> {
    /// The address that is always this client's.
    pub address: Option<A>,
    /// The name that it is given.
    pub hostname: Option<&'a str>,
    /// Whether it is told from others by its card alone: of a card that is served it matters not how many clients it says
    /// to be, unless the plan knows one of them.
    pub by_card: bool,
}

impl Clients {
    pub(crate) fn new(plan: &DhcpPlan) -> Self {
        let known = plan.clients.as_ref().map(|clients| {
            clients.iter().map(|client| (client.hardware.0, client.hostname.clone())).collect()
        });
        let mut v4 = Owners { by_id: HashMap::new(), by_hardware: HashMap::new() };
        for reservation in &plan.reservations {
            let own = (reservation.address, reservation.hostname.clone());
            if let Some(card) = reservation.hardware {
                v4.by_hardware.entry(card.0).or_default().push(own.clone());
            }
            if let Some(id) = &reservation.client_id {
                v4.by_id.entry(id.0.as_slice().into()).or_default().push(own);
            }
        }
        let mut v6 = Owners { by_id: HashMap::new(), by_hardware: HashMap::new() };
        for reservation in plan.ipv6.iter().flat_map(|ipv6| &ipv6.reservations) {
            let own = (reservation.address, reservation.hostname.clone());
            if let Some(card) = reservation.hardware {
                v6.by_hardware.entry(card.0).or_default().push(own.clone());
            }
            if let Some(id) = &reservation.duid {
                v6.by_id.entry(id.0.as_slice().into()).or_default().push(own);
            }
        }
        Self { known, v4, v6 }
    }

    /// A client of IPv4; none if it is not served.
    pub(crate) fn v4(
        &self,
        id: &[u8],
        hardware: &[u8],
        is_here: impl Fn(Ipv4Addr) -> bool,
    ) -> Option<Known<'_, Ipv4Addr>> {
        self.merge(hardware, self.v4.find(id, hardware, is_here))
    }

    /// A client of IPv6; none if it is not served.
    pub(crate) fn v6(&self, duid: &[u8], hardware: &[u8]) -> Option<Known<'_, Ipv6Addr>> {
        self.merge(hardware, self.v6.find(duid, hardware, |_| true))
    }

    fn merge<'a, A>(&'a self, hardware: &[u8], own: Option<Found<'a, A>>) -> Option<Known<'a, A>> {
        let card = <[u8; 6]>::try_from(hardware).ok();
        let listed = self.known.as_ref().map(|known| card.and_then(|card| known.get(&card)));
        let name = match (listed, own.is_some()) {
            (Some(None), false) => return None,
            (Some(Some(name)), _) => name.as_ref(),
            _ => None,
        };
        let by_card = self.known.is_some() && !own.as_ref().is_some_and(|own| own.by_id);
        let (address, reserved_name) = own.map_or((None, None), |own| (Some(own.address), own.name));
        Some(Known { address, hostname: reserved_name.or(name).map(|name| &**name), by_card })
    }
}
