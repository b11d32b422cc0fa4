//! The table of requests: files in the format that editors know as `.http`.
//!
//! ```text
//! ### what is tried
//! # @save uid /metadata/uid
//! POST /api/v1/namespaces/{{ns}}/configmaps
//! Content-Type: application/json
//!
//! {"metadata": {"name": "a"}}
//! ```
//!
//! `# @save NAME POINTER` keeps a value of each server's own answer, to be written as `{{NAME}}` further on.
//! `# @until POINTER VALUE`, `# @until status CODE` and `# @until header NAME` ask again until it is so. `# @pick POINTER` compares a part of the body only.
//! `# @unordered` takes lists in any order. `# @without-certificate` sends no client certificate. `# @differs NAME FIELD…` names a difference of `docs/control-plane.md` and the
//! fields that show it here; `*` stands for anything. Before the first request it is of all requests of the file, and has to show in one.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

/// One request and what is done with its answers.
#[derive(Debug, Default)]
pub struct Row {
    pub name: String,
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
    /// Names and JSON pointers.
    pub saves: Vec<(String, String)>,
    pub until: Option<Until>,
    pub pick: Option<String>,
    pub without_certificate: bool,
    /// Lists may come in any order.
    pub unordered: bool,
    pub differs: Vec<Differs>,
}

/// What is waited for.
#[derive(Debug)]
pub enum Until {
    Status(u16),
    Value(String, Value),
    /// A header that is there.
    Header(String),
}

/// A difference that is known, and where it shows.
#[derive(Debug)]
pub struct Differs {
    pub name: String,
    pub fields: Vec<String>,
}

impl Differs {
    /// Whether one of the fields is meant.
    pub fn covers(&self, field: &str) -> bool {
        self.fields.iter().any(|pattern| fits(pattern, field))
    }
}

/// Whether a pattern with `*` fits a text.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => text.strip_prefix(before).is_some_and(|rest| {
            (0..=rest.len()).any(|at| rest.get(at..).is_some_and(|rest| fits(after, rest)))
        }),
    }
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/differential/requests")
}

/// The files, by name without ending.
pub fn families() -> Vec<String> {
    let entries = fs::read_dir(directory()).unwrap();
    entries.map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

/// One file.
pub struct Family {
    pub rows: Vec<Row>,
    /// Differences of all its requests.
    pub differs: Vec<Differs>,
}

/// The requests of one family.
pub fn read(family: &str) -> Family {
    let text = fs::read_to_string(directory().join(format!("{family}.http"))).unwrap();
    let (head, requests) = text.split_once("### ").unwrap_or_else(|| panic!("{family} has no requests"));
    let mut of_all = Row::default();
    for directive in head.lines().filter_map(|line| line.strip_prefix("# @")) {
        of_all.direct(directive);
    }
    Family { rows: requests.split("\n### ").map(parse).collect(), differs: of_all.differs }
}

fn parse(text: &str) -> Row {
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let mut lines = head.lines();
    let name = lines.next().unwrap_or_default().trim().to_owned();
    let mut row = Row { name, body: body.trim().to_owned(), ..Row::default() };
    for line in lines {
        if let Some(comment) = line.strip_prefix('#') {
            if let Some(directive) = comment.trim().strip_prefix('@') {
                row.direct(directive);
            }
        } else if row.method.is_empty() {
            let (method, path) = line.split_once(' ').unwrap_or_else(|| panic!("{line:?} is no request"));
            (row.method, row.path) = (method.to_owned(), path.trim().to_owned());
        } else {
            let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("{line:?} is no header"));
            row.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    assert!(!row.method.is_empty(), "{:?} has no request", row.name);
    if !row.body.is_empty() && row.header("content-type").is_none() {
        row.headers.push(("content-type".to_owned(), "application/json".to_owned()));
    }
    row
}

impl Row {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    fn direct(&mut self, directive: &str) {
        let mut words = directive.split_whitespace();
        let verb = words.next().unwrap_or_default();
        let mut word = || words.next().unwrap_or_else(|| panic!("{directive:?} is too short")).to_owned();
        match verb {
            "save" => self.saves.push((word(), word())),
            "pick" => self.pick = Some(word()),
            "without-certificate" => self.without_certificate = true,
            "unordered" => self.unordered = true,
            "until" => {
                let (place, value) = (word(), word());
                self.until = Some(match place.as_str() {
                    "status" => Until::Status(value.parse().unwrap()),
                    "header" => Until::Header(value),
                    // Words that are no JSON are text.
                    _ => Until::Value(place, serde_json::from_str(&value).unwrap_or(Value::String(value))),
                });
            }
            "differs" => {
                let name = word();
                self.differs.push(Differs { name, fields: words.map(str::to_owned).collect() });
            }
            _ => panic!("{:?}: there is no directive @{verb}", self.name),
        }
    }
}
