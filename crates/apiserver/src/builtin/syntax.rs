//! The spelling rules of names, keys and values, each answering with Kubernetes' own complaint.

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// What is wrong with a text, if anything.
pub(crate) type Complaints = Vec<String>;

/// How the objects of a kind may be named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameRule {
    Subdomain,
    Label,
    Dns1035Label,
    PathSegment,
}

impl NameRule {
    pub(super) fn check(self, name: &str) -> Complaints {
        match self {
            Self::Subdomain => subdomain(name),
            Self::Label => label(name),
            Self::Dns1035Label => dns_1035_label(name),
            Self::PathSegment => path_segment(name),
        }
    }

    /// A `generateName` may end where a name may not, since a suffix follows.
    pub(super) fn check_prefix(self, prefix: &str) -> Complaints {
        let masked = match (self, prefix.strip_suffix('-')) {
            (Self::PathSegment, _) => {
                return path_segment(prefix)
                    .into_iter()
                    .filter(|c| c.starts_with("may not contain"))
                    .collect();
            }
            (_, Some(start)) if !start.is_empty() => format!("{start}a"),
            _ => prefix.to_owned(),
        };
        self.check(&masked)
    }
}

fn too_long(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

fn in_word(byte: u8, extra: &[u8]) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || extra.contains(&byte)
}

fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = |b: Option<&u8>| b.is_some_and(|&b| in_word(b, b""));
    ends(bytes.first()) && ends(bytes.last()) && bytes.iter().all(|&b| in_word(b, b"-"))
}

fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    ends(bytes.first())
        && ends(bytes.last())
        && bytes.iter().all(|&b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

pub(crate) fn label(text: &str) -> Complaints {
    let mut complaints = Vec::new();
    if text.len() > 63 {
        complaints.push(too_long(63));
    }
    if !is_label(text) {
        complaints.push(format!(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
             and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
             '{LABEL}')"
        ));
    }
    complaints
}

pub(crate) fn subdomain(text: &str) -> Complaints {
    let mut complaints = Vec::new();
    if text.len() > 253 {
        complaints.push(too_long(253));
    }
    if !text.split('.').all(is_label) {
        complaints.push(format!(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '{LABEL}(\\.{LABEL})*')"
        ));
    }
    complaints
}

pub(super) fn dns_1035_label(text: &str) -> Complaints {
    let mut complaints = Vec::new();
    if text.len() > 63 {
        complaints.push(too_long(63));
    }
    if !is_label(text) || text.starts_with(|c: char| c.is_ascii_digit()) {
        complaints.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
             validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    complaints
}

/// Names that only have to fit into a URL, such as those of roles.
pub(crate) fn path_segment(text: &str) -> Complaints {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    ["/", "%"]
        .into_iter()
        .filter(|&bad| text.contains(bad))
        .map(|bad| format!("may not contain '{bad}'"))
        .collect()
}

/// Keys of labels and annotations, names of finalizers and resources: `example.com/MyName`.
pub(crate) fn qualified_name(text: &str) -> Complaints {
    const WORD: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                        alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
                        validation is '";
    let mut complaints = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((_, rest)) if rest.contains('/') => {
            return vec![format!(
                "a qualified name {WORD}{QUALIFIED}') with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                complaints.push("prefix part must be non-empty".to_owned());
            } else {
                complaints.extend(subdomain(prefix).into_iter().map(|c| format!("prefix part {c}")));
            }
            name
        }
    };
    if name.is_empty() {
        complaints.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        complaints.push(format!("name part {}", too_long(63)));
    }
    if !is_word(name) {
        complaints.push(format!("name part {WORD}{QUALIFIED}')"));
    }
    complaints
}

pub(crate) fn label_value(text: &str) -> Complaints {
    let mut complaints = Vec::new();
    if text.len() > 63 {
        complaints.push(too_long(63));
    }
    if !text.is_empty() && !is_word(text) {
        complaints.push(format!(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
             for validation is '({QUALIFIED})?')"
        ));
    }
    complaints
}

/// Keys of ConfigMaps and Secrets, which become file names.
pub(super) fn config_key(text: &str) -> Complaints {
    let mut complaints = Vec::new();
    if text.len() > 253 {
        complaints.push(too_long(253));
    }
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)) {
        complaints.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
             'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                .to_owned(),
        );
    }
    complaints.extend(no_parent_reference(text));
    complaints
}

fn no_parent_reference(text: &str) -> Option<String> {
    match text {
        "." => Some("must not be '.'".to_owned()),
        ".." => Some("must not be '..'".to_owned()),
        _ if text.starts_with("..") => Some("must not start with '..'".to_owned()),
        _ => None,
    }
}

/// Names of environment variables: any printable ASCII but `=`.
pub(super) fn env_name(text: &str) -> Complaints {
    if !text.is_empty() && text.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=') {
        return Vec::new();
    }
    vec![
        "a valid environment variable name must consist only of printable ASCII characters other than '=' (e.g. \
         'my.env-name',  or 'MY_ENV.NAME',  or 'MyEnvName1', regex used for validation is '[ -<>-~]+')"
            .to_owned(),
    ]
}

/// Names of container ports.
pub(super) fn port_name(text: &str) -> Complaints {
    let mut complaints = Vec::new();
    if text.len() > 15 {
        complaints.push("must be no more than 15 bytes".to_owned());
    }
    if !text.bytes().all(|b| in_word(b, b"-")) {
        complaints.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|b| b.is_ascii_lowercase()) {
        complaints.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        complaints.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        complaints.push("must not begin or end with a hyphen".to_owned());
    }
    complaints
}

pub(super) fn port_number(port: i64) -> Complaints {
    between(port, 1, 65535)
}

pub(super) fn between(value: i64, low: i64, high: i64) -> Complaints {
    if (low..=high).contains(&value) {
        return Vec::new();
    }
    vec![format!("must be between {low} and {high}, inclusive")]
}

/// `25%`
pub(super) fn percent(text: &str) -> Complaints {
    let ok = text.strip_suffix('%').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    if ok {
        return Vec::new();
    }
    vec![
        "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used \
         for validation is '[0-9]+%')"
            .to_owned(),
    ]
}

pub(super) fn ip(text: &str) -> Complaints {
    if text.parse::<std::net::IpAddr>().is_ok() {
        return Vec::new();
    }
    vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()]
}
