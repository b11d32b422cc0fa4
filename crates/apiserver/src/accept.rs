//! Reads an `Accept` header as Kubernetes does: clauses by preference, with the parameters `as`, `g` and `v` that
//! ask for another form of the answer.

use std::cmp::Reverse;

/// One clause of an `Accept` header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Clause<'a> {
    /// Lower-case words are expected: `application/json`, `*/*`.
    pub media_type: &'a str,
    params: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    /// A parameter's value, empty when absent.
    pub(crate) fn param(&self, name: &str) -> &'a str {
        self.params.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value)
    }

    /// Whether this clause can be answered with JSON.
    pub(crate) fn takes_json(&self) -> bool {
        matches!(self.media_type, "application/json" | "application/*" | "*/*")
    }

    /// The kind, group and version that `as`, `g` and `v` ask for; `None` when none is named.
    pub(crate) fn conversion(&self) -> Option<(&'a str, &'a str, &'a str)> {
        let asked = (self.param("as"), self.param("g"), self.param("v"));
        (asked != ("", "", "")).then_some(asked)
    }
}

/// The clauses of a header, the most wanted first; what the client refuses (`q=0`) is left out.
pub(crate) fn parse(accept: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<(u32, Clause<'_>)> = accept
        .split(',')
        .map(str::trim)
        .filter(|clause| !clause.is_empty())
        .map(|clause| {
            let mut parts = clause.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default();
            let params: Vec<_> = parts
                .filter_map(|part| part.split_once('='))
                .map(|(key, value)| (key.trim(), value.trim().trim_matches('"')))
                .collect();
            let quality = params.iter().find(|(key, _)| *key == "q");
            let quality = quality.and_then(|(_, q)| q.parse::<f32>().ok()).unwrap_or(1.0);
            ((quality.clamp(0.0, 1.0) * 1000.0) as u32, Clause { media_type, params })
        })
        .filter(|(quality, _)| *quality > 0)
        .collect();
    clauses.sort_by_key(|(quality, _)| Reverse(*quality));
    clauses.into_iter().map(|(_, clause)| clause).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_by_quality_and_keeps_the_order_of_equals() {
        let types = |accept| parse(accept).into_iter().map(|c| c.media_type).collect::<Vec<_>>();
        assert_eq!(
            types("text/html;q=0.5, application/json, */*;q=0.1"),
            ["application/json", "text/html", "*/*"]
        );
        assert_eq!(types("application/yaml,application/json"), ["application/yaml", "application/json"]);
        assert_eq!(types("application/json;q=0"), [""; 0]);
        assert_eq!(types(""), [""; 0]);
    }

    #[test]
    fn reads_the_conversion_that_a_client_asks_for() {
        let clauses = parse("application/json; as=Table ;v=v1;g=meta.k8s.io, application/json");
        assert_eq!(clauses[0].conversion(), Some(("Table", "meta.k8s.io", "v1")));
        assert_eq!(clauses[1].conversion(), None);
    }
}
