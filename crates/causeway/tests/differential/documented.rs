//! The differences that `docs/control-plane.md` names, each with its reason.

use std::collections::BTreeSet;
use std::fs;

use crate::table;

/// Rows of the table under this heading begin with the difference's name.
const HEADING: &str = "## Where answers differ";

fn documented() -> BTreeSet<String> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/control-plane.md");
    let text = fs::read_to_string(file).unwrap();
    let (_, section) = text.split_once(HEADING).unwrap_or_else(|| panic!("{file} has no {HEADING:?}"));
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    rows.map(|(name, _)| name.to_owned()).collect()
}

/// A difference that no request shows is no longer known to be there, and one without a reason is a fault.
#[test]
fn the_documents_name_the_differences_that_requests_show() {
    let families = table::families().into_iter().map(|family| table::read(&family));
    let differs = families.flat_map(|family| {
        let of_rows = family.rows.into_iter().flat_map(|row| row.differs);
        family.differs.into_iter().chain(of_rows).collect::<Vec<_>>()
    });
    let shown: BTreeSet<String> = differs.map(|differs| differs.name).collect();
    assert_eq!(shown, documented());
}
