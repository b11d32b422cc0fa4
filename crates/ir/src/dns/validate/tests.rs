use super::*;

const BIND: &str = "binds: ['[::1]:53']";

fn plan(text: &str) -> DnsPlan {
    serde_saphyr::from_str(&format!("{{{text}}}")).unwrap()
}

fn zone(fields: &str) -> String {
    format!("{BIND}, views: [{{name: a, zones: [{{domain: lab.test, {fields}}}]}}]")
}

fn upstream(fields: &str) -> String {
    format!("binds: ['0.0.0.0:53', '10.0.0.2:5353'], views: [], forward: {{upstreams: [{fields}]}}")
}

#[test]
fn says_what_is_wrong_and_where() {
    for (text, path, words) in [
        ("binds: [], views: []".into(), "binds", "at least one address"),
        ("binds: ['[::1]:53', '[::1]:53'], views: []".into(), "binds[1]", "taken by binds[0]"),
        (
            "binds: ['10.0.0.2:53', '0.0.0.0:53'], views: []".into(),
            "binds[1]",
            "taken by binds[0], 10.0.0.2:53",
        ),
        ("binds: ['224.0.0.1:53'], views: []".into(), "binds[0]", "not an address of a host"),
        (
            format!("{BIND}, views: [{{name: a}}, {{name: b}}]"),
            "views[1].sources",
            "no client gets this view",
        ),
        (
            format!(
                "{BIND}, views: [{{name: a, sources: [10.0.0.0/8]}}, {{name: b, sources: [10.1.0.0/16, 10.2.0.0/16]}}]"
            ),
            "views[1].sources",
            "views[0] has all of them",
        ),
        (
            format!("{BIND}, views: [{{name: a, sources: [10.0.0.0/8]}}, {{name: a}}]"),
            "views[1].name",
            "already the name of views[0]",
        ),
        (format!("{BIND}, views: [{{name: a, reverse: [0.0.0.0/0]}}]"), "views[0].reverse[0]", "at least /8"),
        (
            format!("{BIND}, views: [{{name: a, zones: [{{domain: a..b}}]}}]"),
            "views[0].zones[0].domain",
            "labels",
        ),
        (
            format!("{BIND}, views: [{{name: a, zones: [{{domain: '*.b'}}]}}]"),
            "views[0].zones[0].domain",
            "wildcard",
        ),
        (
            zone("ttl: 1500ms"),
            "views[0].zones[0].ttl",
            "1s500ms can't be told to clients: write whole seconds",
        ),
        (
            zone("records: [{name: a.lab.test, addresses: [10.0.0.1], ttl: 1500ms}]"),
            "views[0].zones[0].records[0].ttl",
            "write whole seconds",
        ),
        (zone("negativeTtl: 999999h"), "views[0].zones[0].negativeTtl", "at most 24h"),
        (zone("nameServer: '*.lab.test'"), "views[0].zones[0].nameServer", "wildcard"),
        (
            zone("records: [{name: a.other.test, addresses: [10.0.0.1]}]"),
            "views[0].zones[0].records[0].name",
            "ends with .lab.test",
        ),
        (
            zone(
                "records: [{name: a.lab.test, addresses: [10.0.0.1]}, {name: A.lab.test, addresses: [10.0.0.1]}]",
            ),
            "views[0].zones[0].records[1].name",
            "already records[0]",
        ),
        (
            zone("records: [{name: a.lab.test, addresses: []}]"),
            "views[0].zones[0].records[0].addresses",
            "write one",
        ),
        (
            zone("records: [{name: a.lab.test, addresses: [10.0.0.1, '::']}]"),
            "views[0].zones[0].records[0].addresses[1]",
            ":: is not an address of a host",
        ),
        (
            format!(
                "{BIND}, views: [{{name: a, zones: [{{domain: lab.test, records: [\
                 {{name: x.b.lab.test, addresses: [10.0.0.1]}}]}}, {{domain: b.lab.test}}]}}]"
            ),
            "views[0].zones[0].records[0].name",
            "in the zone b.lab.test",
        ),
        (
            format!(
                "{BIND}, views: [{{name: a, zones: [{{domain: lab.test}}, {{domain: b.lab.test, open: true}}]}}]"
            ),
            "views[0].zones[1].open",
            "within zones[0], whose names are asked nowhere else",
        ),
        (zone("open: true, nameServer: ns.lab.test"), "views[0].zones[0].nameServer", "leave nameServer out"),
        (upstream("{address: '10.0.0.2:5353'}"), "forward.upstreams[0].address", "this server itself"),
        (upstream("{address: '127.0.0.1:53'}"), "forward.upstreams[0].address", "this server itself"),
        (upstream("{address: '10.0.0.9:0'}"), "forward.upstreams[0].address", "10.0.0.9:0 can't be asked"),
        (
            upstream("{address: '10.0.0.9:53'}, {address: '10.0.0.9:53'}"),
            "forward.upstreams[1].address",
            "already upstreams[0]",
        ),
        (
            upstream("{address: '10.0.0.9:853', tlsCaFile: /ca.pem}"),
            "forward.upstreams[0].tlsCaFile",
            "write tlsServerName too",
        ),
        (format!("{BIND}, views: [], cache: {{size: 1Ki}}"), "cache.size", "1Ki holds next to nothing"),
    ] {
        let found: Vec<String> = plan(&text).validate().iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].starts_with(&format!("{path}: ")) && found[0].contains(words), "{found:?}");
    }
}

#[test]
fn what_can_be_written_in_two_ways_is_fine_in_both() {
    for text in [
        "binds: ['0.0.0.0:53', '[::]:53', '10.0.0.2:5353', '127.0.0.1:0', '127.0.0.1:0'], views: []".into(),
        format!(
            "{BIND}, views: [{{name: a, sources: [10.1.0.0/16]}}, {{name: b, sources: [10.0.0.0/8]}}, {{name: c}}]"
        ),
        format!("{BIND}, views: [], cache: {{size: '0'}}"),
        zone(
            "records: [{name: lab.test, addresses: [10.0.0.1]}, {name: '*.lab.test', addresses: [10.0.0.1]}]",
        ),
    ] {
        assert_eq!(plan(&text).validate(), [], "{text}");
    }
}

#[test]
fn warns_of_what_runs_otherwise_than_meant() {
    for (text, path, words) in [
        (format!("{BIND}, views: [{{name: a, recursion: [0.0.0.0/0]}}]"), "views[0].recursion[0]", "anybody"),
        (format!("{BIND}, views: []"), "views", "every client is refused"),
        (
            format!("{BIND}, views: [{{name: a, sources: [10.0.0.5/24]}}]"),
            "views[0].sources[0]",
            "counts as 10.0.0.0/24",
        ),
    ] {
        let plan = plan(&text);
        assert!(plan.validate().is_empty());
        let found = plan.warnings();
        assert!(found.len() == 1 && found[0].path == path && found[0].message.contains(words), "{found:?}");
    }
}
