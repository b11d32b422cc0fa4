//! A plan in parts. Its text has a line for each item of a list and is cut where a line's own content says, so that a change
//! in one place leaves all other parts as they are, wherever in the plan it is. A part never changes: another text has
//! another digest.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use causeway_api::PlanPart;
use causeway_ir::Plan;
use serde::Serialize as _;
use serde_json::ser::{Formatter, Serializer};

/// No part but the last is smaller: each costs an object.
const LEAST: usize = 16 * 1024;
/// Nor larger, unless a line is: an object may have 1.5 MiB, and every new part is sent to every pod.
const MOST: usize = 128 * 1024;
/// One line in so many ends a part.
const ENDS: u64 = 32;

/// The plan can't be put together.
#[derive(Debug)]
pub struct Unreadable(serde_json::Error);

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the operator's plan can't be read, as if it were of another version: {}", self.0)
    }
}

impl std::error::Error for Unreadable {}

/// The parts of a plan, in order.
pub fn split(plan: &Plan) -> Vec<PlanPart> {
    let mut text = Vec::new();
    // Plans are plain data with texts as keys, so there is nothing that could not be written.
    if plan.serialize(&mut Serializer::with_formatter(&mut text, Lines)).is_err() {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&text);
    let mut parts: Vec<PlanPart> = Vec::new();
    let mut begin = 0;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let length = at - begin;
        if length >= LEAST && (length + line.len() > MOST || hash(line, 0).is_multiple_of(ENDS)) {
            parts.push(part(&text[begin..at]));
            begin = at;
        }
        at += line.len();
    }
    parts.push(part(&text[begin..]));
    // The same text twice is one object, listed twice.
    parts
}

/// The plan of these texts, which are all parts in order.
///
/// # Errors
/// If it is none, or has something that this version does not know.
pub fn join<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Plan, Unreadable> {
    let text: String = texts.collect();
    serde_json::from_str(&text).map_err(Unreadable)
}

fn part(text: &str) -> PlanPart {
    PlanPart { digest: format!("{:016x}{:016x}", hash(text, 1), hash(text, 2)), text: text.to_owned() }
}

fn hash(text: &str, salt: u8) -> u64 {
    let mut hasher = DefaultHasher::new();
    (salt, text).hash(&mut hasher);
    hasher.finish()
}

/// JSON with a line for each item of a list.
struct Lines;

impl Formatter for Lines {
    fn begin_array_value<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        writer.write_all(if first { b"\n" } else { b",\n" })
    }
}

#[cfg(test)]
mod tests {
    use causeway_ir::{Cluster, Endpoint, Name};

    use super::*;

    fn plan(clusters: impl Iterator<Item = usize>) -> Plan {
        let cluster = |i: usize| {
            let address =
                format!("10.0.{}.{}:80", i / 250, i % 250 + 1).parse::<causeway_ir::Address>().unwrap();
            Cluster::new(Name::parse(&format!("shop/web-{i}:80")).unwrap(), vec![Endpoint::new(address)])
        };
        Plan { clusters: clusters.map(cluster).collect(), ..Plan::default() }
    }

    #[test]
    fn parts_make_the_plan_again() {
        for plan in [Plan::default(), plan(0..3), plan(0..2000)] {
            let parts = split(&plan);
            assert_eq!(join(parts.iter().map(|part| part.text.as_str())).unwrap(), plan);
        }
        assert!(split(&plan(0..2000)).iter().all(|part| part.text.len() <= MOST + 1024));
        assert!(join(["{\"newer\": 1}"].into_iter()).unwrap_err().to_string().contains("another version"));
    }

    #[test]
    fn a_change_anywhere_is_a_change_of_few_parts() {
        let before = split(&plan(0..3000));
        assert!(before.len() > 10, "{} parts", before.len());
        for after in [plan((0..3000).filter(|i| *i != 7)), plan((0..3001).filter(|i| *i != 1500))] {
            let known: std::collections::HashSet<_> = before.iter().map(|part| &part.digest).collect();
            let new = split(&after).iter().filter(|part| !known.contains(&part.digest)).count();
            assert!(new <= 4, "{new} new parts of {}", before.len());
        }
    }
}
