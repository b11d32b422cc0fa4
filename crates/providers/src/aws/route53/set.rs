//! Record sets as Route 53 has them, and as everybody else does.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use aws_sdk_route53::types::{AliasTarget, Change, ChangeAction, ResourceRecord, ResourceRecordSet, RrType};

use crate::dns::mark::{MARK_TTL, mark_name};
use crate::dns::{Found, Kind, Owner, Records};
use crate::{Error, Name};

/// What there is at a name, and the very sets that say so: to take one out, all of it has to be named.
#[derive(Debug, Clone, Default)]
pub(super) struct Entry {
    pub(super) found: Found,
    sets: BTreeMap<Kind, Vec<ResourceRecordSet>>,
    mark: Option<ResourceRecordSet>,
}

/// A name as Route 53 writes it: with a dot at the end, and signs as octal numbers.
pub(super) fn name(text: &str) -> Option<Name> {
    Name::parse(&text.replace("\\052", "*")).ok()
}

/// What there is at each of these names, out of record sets of the zone.
pub(super) fn entries(names: &[Name], sets: &[ResourceRecordSet]) -> BTreeMap<Name, Entry> {
    let mut by_name: HashMap<Name, Vec<&ResourceRecordSet>> = HashMap::new();
    for set in sets {
        if let Some(name) = name(set.name()) {
            by_name.entry(name).or_default().push(set);
        }
    }
    let entry = |at: &Name| {
        let mut entry = Entry::default();
        for set in by_name.get(at).into_iter().flatten() {
            let Some(kind) = kind(set.r#type()) else { continue };
            let of_kind = entry.sets.entry(kind).or_default();
            // Pages overlap where names are read one by one.
            if of_kind.contains(set) {
                continue;
            }
            of_kind.push((*set).clone());
            let records = if of_kind.len() == 1 { records(kind, set) } else { None };
            let other = || Records::Other(format!("{} record sets, by {}", of_kind.len(), policy(set)));
            entry.found.records.insert(kind, records.unwrap_or_else(other));
        }
        let mark = by_name.get(&mark_name(at)).into_iter().flatten().find(|set| *set.r#type() == RrType::Txt);
        if let Some(mark) = mark {
            let texts = mark.resource_records().iter().map(|record| unquote(record.value()));
            entry.found.owners = texts.filter_map(|text| Owner::from_mark(&text)).collect();
            entry.mark = Some((*mark).clone());
        }
        entry
    };
    names.iter().map(|at| (at.clone(), entry(at))).collect()
}

fn kind(kind: &RrType) -> Option<Kind> {
    match kind {
        RrType::A => Some(Kind::A),
        RrType::Aaaa => Some(Kind::Aaaa),
        RrType::Cname => Some(Kind::Cname),
        RrType::Txt => Some(Kind::Txt),
        _ => None,
    }
}

fn policy(set: &ResourceRecordSet) -> &'static str {
    if set.set_identifier().is_some() { "a routing policy" } else { "another way than ours" }
}

/// None for what we never write, such as sets with a weight.
fn records(kind: Kind, set: &ResourceRecordSet) -> Option<Records> {
    let plain = set.set_identifier().is_none()
        && set.health_check_id().is_none()
        && set.traffic_policy_instance_id().is_none();
    if !plain {
        return None;
    }
    if let Some(alias) = set.alias_target() {
        let ours = !alias.evaluate_target_health() && matches!(kind, Kind::A | Kind::Aaaa);
        let target = name(alias.dns_name())?;
        return ours.then(|| Records::Alias(target, alias.hosted_zone_id().to_owned()));
    }
    let ttl = u32::try_from(set.ttl()?).ok()?;
    let values = || set.resource_records().iter().map(ResourceRecord::value);
    Some(match kind {
        Kind::A => Records::A(values().map(|value| value.parse().ok()).collect::<Option<_>>()?, ttl),
        Kind::Aaaa => Records::Aaaa(values().map(|value| value.parse().ok()).collect::<Option<_>>()?, ttl),
        Kind::Cname => Records::Cname(name(values().next()?)?, ttl),
        Kind::Txt => Records::Txt(values().map(unquote).collect(), ttl),
    })
}

impl Entry {
    /// The changes that make `after` of this, and what there is then.
    pub(super) fn rewrite(&self, at: &Name, after: &Found) -> Result<(Vec<Change>, Self), Error> {
        let mut changes = Vec::new();
        let mut next = Self { found: after.clone(), ..self.clone() };
        for kind in [Kind::A, Kind::Aaaa, Kind::Cname, Kind::Txt] {
            let (old, new) = (self.found.records.get(&kind), after.records.get(&kind));
            if old == new {
                continue;
            }
            let old = next.sets.remove(&kind).unwrap_or_default();
            let new = new.map(|records| build(at, kind, records)).transpose()?;
            next.sets.extend(new.iter().map(|set| (kind, vec![set.clone()])));
            replace(&mut changes, old, new)?;
        }
        // Always, since it is what other controllers look at; and a change of nothing else is a change.
        let marks: BTreeSet<String> = after.owners.iter().map(Owner::mark).collect();
        let mark =
            (!marks.is_empty()).then(|| build(&mark_name(at), Kind::Txt, &Records::Txt(marks, MARK_TTL)));
        next.mark = mark.transpose()?;
        replace(&mut changes, self.mark.iter().cloned().collect(), next.mark.clone())?;
        Ok((changes, next))
    }
}

/// What is taken out must be just so, and what is created must not be there: else all is refused.
fn replace(
    changes: &mut Vec<Change>,
    old: Vec<ResourceRecordSet>,
    new: Option<ResourceRecordSet>,
) -> Result<(), Error> {
    let create = if old.is_empty() { ChangeAction::Create } else { ChangeAction::Upsert };
    let old = old.into_iter().map(|set| (ChangeAction::Delete, set));
    for (action, set) in old.chain(new.map(|set| (create, set))) {
        let change = Change::builder().action(action).resource_record_set(set).build();
        changes.push(change.map_err(|failed| Error::unavailable(super::AT, failed))?);
    }
    Ok(())
}

fn build(at: &Name, kind: Kind, records: &Records) -> Result<ResourceRecordSet, Error> {
    let wire_kind = match kind {
        Kind::A => RrType::A,
        Kind::Aaaa => RrType::Aaaa,
        Kind::Cname => RrType::Cname,
        Kind::Txt => RrType::Txt,
    };
    let broken = |failed| Error::unavailable(super::AT, failed);
    let mut set = ResourceRecordSet::builder().name(at.as_str()).r#type(wire_kind);
    let (values, ttl): (Vec<String>, u32) = match records {
        Records::A(addresses, ttl) => (addresses.iter().map(ToString::to_string).collect(), *ttl),
        Records::Aaaa(addresses, ttl) => (addresses.iter().map(ToString::to_string).collect(), *ttl),
        Records::Cname(target, ttl) => (vec![target.to_string()], *ttl),
        Records::Txt(texts, ttl) => (texts.iter().map(|text| quote(text)).collect(), *ttl),
        Records::Alias(target, zone) => {
            let alias = AliasTarget::builder()
                .dns_name(target.as_str())
                .hosted_zone_id(zone)
                .evaluate_target_health(false);
            return set.alias_target(alias.build().map_err(broken)?).build().map_err(broken);
        }
        Records::Other(said) => return Err(Error::invalid(format!("{said} can't be written"), "remove it")),
    };
    for value in values {
        set = set.resource_records(ResourceRecord::builder().value(value).build().map_err(broken)?);
    }
    set.ttl(ttl.into()).build().map_err(broken)
}

fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The parts of a text together, without quotes and with signs for their octal numbers.
fn unquote(value: &str) -> String {
    let mut text = Vec::new();
    let mut inside = false;
    let mut bytes = value.bytes().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => inside = !inside,
            b'\\' => {
                let digits: Vec<u8> = bytes.clone().take(3).collect();
                let octal = std::str::from_utf8(&digits).ok().filter(|digits| digits.len() == 3);
                if let Some(sign) = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
                    text.push(sign);
                    bytes.by_ref().take(3).for_each(drop);
                } else {
                    text.extend(bytes.next());
                }
            }
            _ if inside => text.push(byte),
            _ => {}
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_survive_the_way_there_and_back() {
        for text in ["v=spf1 -all", "a \"quoted\" \\ word", ""] {
            assert_eq!(unquote(&quote(text)), text);
        }
        assert_eq!(unquote("\"one\" \"two\\052\""), "onetwo*");
    }

    #[test]
    fn sets_with_a_policy_are_seen_and_never_taken_for_ours() {
        let set = |identifier: &str| {
            let record = ResourceRecord::builder().value("192.0.2.1").build().unwrap();
            let set = ResourceRecordSet::builder().name("\\052.x.example.com.").r#type(RrType::A).ttl(60);
            set.resource_records(record).set_identifier(identifier).weight(1).build().unwrap()
        };
        let at = Name::parse("*.x.example.com").unwrap();
        let entries = entries(std::slice::from_ref(&at), &[set("a"), set("b")]);
        let found = &entries[&at].found;
        assert_eq!(found.to_string(), "A 2 record sets, by a routing policy");
    }
}
