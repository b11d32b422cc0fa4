//! What a batch of changes comes to, from what there is: pure, and the same for every provider. Also what people are shown
//! before anything is done.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use super::mark::check_word;
use super::{Change, Found, Kind, Owner, Records, Wanted, Zone};
use crate::{Error, Name};

/// What [`super::DnsProvider::apply`] would do.
#[derive(Debug)]
pub struct Plan {
    /// The zone's domain.
    pub domain: Name,
    /// One for each change, in their order.
    pub steps: Vec<Step>,
}

/// What one change comes to.
#[derive(Debug)]
pub struct Step {
    /// The name.
    pub name: Name,
    /// What is done.
    pub verdict: Verdict,
}

/// What is done for a change.
#[derive(Debug)]
pub enum Verdict {
    /// All is as it should be.
    Keep,
    /// The name's records and marks are written.
    Write {
        /// What there is.
        before: Found,
        /// What there will be.
        after: Found,
    },
    /// Nothing is touched.
    Refuse(Error),
}

/// What is at a name, or why it can't be.
type ByKind = Result<BTreeMap<Kind, Records>, Error>;

/// How a provider plans.
pub(crate) struct Planner<'a> {
    pub(crate) instance: &'a str,
    pub(crate) zone: &'a Zone,
    /// Whether a mark stays, as leaving, when its records go.
    pub(crate) lingers: bool,
    /// What is written for the name of a load balancer.
    pub(crate) balancer: fn(&Zone, &Name, &Wanted) -> ByKind,
}

impl Planner<'_> {
    /// Goes through the changes one after the other; a later one finds what an earlier one of the same name has written.
    pub(crate) fn plan<'c>(
        &self,
        changes: impl IntoIterator<Item = &'c Change>,
        mut found: BTreeMap<Name, Found>,
    ) -> Plan {
        let steps = changes.into_iter().map(|change| {
            let before = found.get(&change.name).cloned().unwrap_or_default();
            let verdict = match self.step(change, &before) {
                Err(error) => Verdict::Refuse(error),
                Ok(after) if after == before => Verdict::Keep,
                Ok(after) => {
                    found.insert(change.name.clone(), after.clone());
                    Verdict::Write { before, after }
                }
            };
            Step { name: change.name.clone(), verdict }
        });
        Plan { domain: self.zone.domain.clone(), steps: steps.collect() }
    }

    /// What should be at the change's name.
    fn step(&self, change: &Change, found: &Found) -> Result<Found, Error> {
        let Change { name, object, want, settled } = change;
        check_word("a controller", self.instance)?;
        check_word("an object", object)?;
        if !name.is_in(&self.zone.domain) {
            // Nobody can have written it here.
            if *want == Wanted::Nothing {
                return Ok(found.clone());
            }
            return Err(Error::invalid(
                format!("{name} is not in the zone {}", self.zone.domain),
                "ask for it in the zone of its domain",
            ));
        }
        let wanted = self.records(name, want)?;
        let ours: Vec<_> =
            found.owners.iter().filter(|owner| owner.instance == self.instance && !owner.leaving).collect();
        let foreign: Vec<_> =
            found.owners.iter().filter(|owner| owner.instance != self.instance).cloned().collect();
        let others: Vec<_> = ours.iter().filter(|owner| owner.object != *object).copied().cloned().collect();
        let mut held: BTreeSet<Kind> = ours.iter().flat_map(|owner| owner.kinds.iter().copied()).collect();
        // Somebody may have removed a mark; what is just as it was written is still the object's.
        if let Some(settled) = settled.as_ref().filter(|_| found.owners.is_empty()) {
            let written = self.records(name, settled).unwrap_or_default();
            if !written.is_empty()
                && written.iter().all(|(kind, records)| found.records.get(kind) == Some(records))
            {
                held.extend(written.into_keys());
            }
        }
        let refusal = |owners| Error::NotOurs { name: name.clone(), found: found.clone(), owners };
        let mut after = found.clone();
        let mine = |owner: &Owner| owner.instance == self.instance && owner.object == *object;

        if wanted.is_empty() {
            let had_mark = found.owners.iter().find(|owner| mine(owner));
            after.owners.retain(|owner| !mine(owner));
            let last = others.is_empty() && (had_mark.is_some() || !held.is_empty());
            if last && foreign.is_empty() {
                after.records.retain(|kind, _| !held.contains(kind));
                if self.lingers {
                    let kinds = had_mark.map_or(held, |owner| owner.kinds.clone());
                    after.owners.insert(Owner { leaving: true, ..self.owner(object, kinds) });
                }
            }
            return Ok(after);
        }

        let in_the_way = found.records.keys().any(|kind| !held.contains(kind) && excludes(&wanted, *kind));
        if !foreign.is_empty() || in_the_way {
            return Err(refusal(foreign));
        }
        let kinds: BTreeSet<Kind> = wanted.keys().copied().collect();
        after.records.retain(|kind, _| !held.contains(kind));
        after.records.extend(wanted);
        if !others.is_empty() && after.records != found.records {
            return Err(refusal(others));
        }
        after.owners.retain(|owner| !mine(owner) && !owner.leaving);
        after.owners.insert(self.owner(object, kinds));
        Ok(after)
    }

    fn owner(&self, object: &str, kinds: BTreeSet<Kind>) -> Owner {
        Owner { instance: self.instance.to_owned(), object: object.to_owned(), kinds, leaving: false }
    }

    fn records(&self, name: &Name, want: &Wanted) -> Result<BTreeMap<Kind, Records>, Error> {
        match want {
            Wanted::Balancer { .. } => (self.balancer)(self.zone, name, want),
            other => records(self.zone, name, other),
        }
    }
}

/// Whether records of this kind at a name stand against the wanted ones: they would be answered beside or instead of them.
fn excludes(wanted: &BTreeMap<Kind, Records>, kind: Kind) -> bool {
    let addresses = wanted.contains_key(&Kind::A) || wanted.contains_key(&Kind::Aaaa);
    match kind {
        Kind::Cname => true,
        Kind::A | Kind::Aaaa => addresses || wanted.contains_key(&Kind::Cname),
        Kind::Txt => wanted.contains_key(&Kind::Txt) || wanted.contains_key(&Kind::Cname),
    }
}

/// What is written where there are no alias records.
pub(crate) fn records(zone: &Zone, name: &Name, want: &Wanted) -> Result<BTreeMap<Kind, Records>, Error> {
    Ok(match want {
        Wanted::Nothing => BTreeMap::new(),
        Wanted::Addresses { addresses, ttl } => {
            let v4: BTreeSet<_> = addresses
                .iter()
                .filter_map(|ip| if let IpAddr::V4(ip) = ip { Some(*ip) } else { None })
                .collect();
            let v6: BTreeSet<_> = addresses
                .iter()
                .filter_map(|ip| if let IpAddr::V6(ip) = ip { Some(*ip) } else { None })
                .collect();
            if addresses.is_empty() {
                return Err(Error::invalid(format!("no address for {name}"), "wait for one"));
            }
            let v4 = (!v4.is_empty()).then_some((Kind::A, Records::A(v4, *ttl)));
            let v6 = (!v6.is_empty()).then_some((Kind::Aaaa, Records::Aaaa(v6, *ttl)));
            v4.into_iter().chain(v6).collect()
        }
        Wanted::Canonical { target, ttl } | Wanted::Balancer { target, ttl, .. } => {
            if *name == zone.domain {
                return Err(Error::invalid(
                    format!("{name} is the top of its zone and can't be a CNAME to {target}"),
                    "use a gateway with fixed addresses, a name below it, or a provider with alias records (Route 53)",
                ));
            }
            [(Kind::Cname, Records::Cname(target.clone(), *ttl))].into()
        }
        Wanted::Texts { texts, ttl } => {
            if texts.is_empty() || texts.iter().any(|text| text.len() > 255 || !text.is_ascii()) {
                return Err(Error::invalid(
                    format!("{name} can't hold these texts"),
                    "write at least one, each of up to 255 ASCII characters",
                ));
            }
            [(Kind::Txt, Records::Txt(texts.clone(), *ttl))].into()
        }
    })
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "zone {}", self.domain)?;
        for Step { name, verdict } in &self.steps {
            match verdict {
                Verdict::Keep => writeln!(f, "= {name}")?,
                Verdict::Refuse(error) => writeln!(f, "! {name}: {error}")?,
                Verdict::Write { before, after } => {
                    let kinds: BTreeSet<_> = before.records.keys().chain(after.records.keys()).collect();
                    for kind in kinds {
                        match (before.records.get(kind), after.records.get(kind)) {
                            (old, new) if old == new => {}
                            (None, Some(new)) => writeln!(f, "+ {name} {kind} {new}")?,
                            (Some(old), None) => writeln!(f, "- {name} {kind} {old}")?,
                            (Some(old), Some(new)) => writeln!(f, "~ {name} {kind} {old} → {new}")?,
                            (None, None) => {}
                        }
                    }
                    for owner in after.owners.difference(&before.owners) {
                        let leaving = if owner.leaving { ", leaving" } else { "" };
                        writeln!(f, "+ {name} mark of {owner}{leaving}")?;
                    }
                    for owner in before.owners.difference(&after.owners) {
                        writeln!(f, "- {name} mark of {owner}")?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
