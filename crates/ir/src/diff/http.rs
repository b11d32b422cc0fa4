//! What differs between the routes of requests of two plans, through the sites that they stand in.

use std::collections::HashMap;

use super::{Change, changes};
use crate::http::{Http, HttpRoute, Site};

/// The routes that differ, wherever they stand. One that moved to another site has both sides, equal or not. Sites that
/// are equal cost a comparison and nothing else.
pub fn route_changes<'a>(old: Option<&'a Http>, new: Option<&'a Http>) -> Vec<Change<'a, HttpRoute>> {
    let bare = |http: Option<&'a Http>| http.map_or(&[][..], |http| &http.routes);
    let sites = |http: Option<&'a Http>| http.map_or(&[][..], |http| &http.sites);
    let inside = |site: Option<&'a Site>| site.map_or(&[][..], |site| &site.routes);
    let mut found = changes(bare(old), bare(new));
    let differing = changes(sites(old), sites(new));
    if differing.is_empty() {
        return found;
    }
    for site in differing {
        found.extend(changes(inside(site.old), inside(site.new)));
    }
    joined(found)
}

/// A route that one list lost and another got is the same route.
fn joined<'a>(found: Vec<Change<'a, HttpRoute>>) -> Vec<Change<'a, HttpRoute>> {
    let gone = found.iter().filter(|change| change.new.is_none()).filter_map(|change| change.old);
    let mut gone: HashMap<&str, &'a HttpRoute> = gone.map(|route| (route.name.as_str(), route)).collect();
    let mut joined = Vec::with_capacity(found.len());
    for change in &found {
        if let (None, Some(new)) = (change.old, change.new) {
            joined.push(Change { old: gone.remove(new.name.as_str()), new: Some(new) });
        } else if change.new.is_some() {
            joined.push(*change);
        }
    }
    joined.extend(gone.into_values().map(|old| Change { old: Some(old), new: None }));
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `-a` removed, `+a` added, `~a` changed or moved; sorted.
    fn found(old: &str, new: &str) -> String {
        let [old, new] = [old, new].map(|text| serde_saphyr::from_str::<Http>(text).unwrap());
        let word = |change: &Change<'_, HttpRoute>| match (change.old, change.new) {
            (Some(_), Some(new)) => format!("~{}", new.name),
            (None, Some(new)) => format!("+{}", new.name),
            (Some(old), None) => format!("-{}", old.name),
            (None, None) => unreachable!("a change has a side"),
        };
        let mut words: Vec<String> = route_changes(Some(&old), Some(&new)).iter().map(word).collect();
        words.sort();
        words.join("")
    }

    #[test]
    fn routes_are_found_in_sites_and_on_their_way_between_them() {
        let of = |name: &str| format!("{{name: {name}, action: {{forward: c}}}}");
        let site = |name: &str, routes: &[&str]| {
            let routes: Vec<String> = routes.iter().map(|name| of(name)).collect();
            format!("{{name: {name}, hosts: [{name}.test], routes: [{}]}}", routes.join(", "))
        };
        let http = |bare: &str, sites: &[String]| {
            format!("{{routes: [{}], sites: [{}]}}", of(bare), sites.join(", "))
        };
        let old = http("a", &[site("s", &["b", "c"]), site("t", &["d"])]);
        assert_eq!(found(&old, &old), "");
        assert_eq!(found(&old, &http("a", &[site("s", &["b"]), site("t", &["d", "e"])])), "+e-c");
        assert_eq!(found(&old, &http("a", &[site("s", &["b"]), site("t", &["d", "c"])])), "~c");
        assert_eq!(found(&old, &http("b", &[site("s", &["c"])])), "-a-d~b");
        let changed = old.replacen("{name: d, ", "{name: d, hosts: [x.test], ", 1);
        assert_eq!(found(&old, &changed), "~d");
    }
}
