//! The objects in the files of a folder: YAML with any number of documents, or JSON. A file that can't be read is told with
//! the line, and the objects that it had before stay in use; the others are not disturbed by it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use serde_saphyr::{MessageFormatter as _, UserMessageFormatter};

use crate::parts::output;
use crate::parts::plan_file::{Lines, Stamp, of_file, options, stamp};

/// The namespace of what names none.
const DEFAULT_NAMESPACE: &str = "default";
/// Kinds that are in no namespace.
const OF_THE_WHOLE: [&str; 2] = ["GatewayClass", "Namespace"];

/// A folder that is looked at again and again.
pub(super) struct Folder {
    path: PathBuf,
    files: BTreeMap<PathBuf, File>,
}

struct File {
    seen: Option<Stamp>,
    objects: Vec<Written>,
}

/// An object and where it is written.
#[derive(Clone)]
pub(super) struct Written {
    pub(super) object: DynamicObject,
    pub(super) place: Place,
    text: std::sync::Arc<str>,
}

/// Where something is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    file: PathBuf,
    line: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

impl Written {
    /// The place of a field, or of what it would be in.
    pub(super) fn place_of(&self, field: &str) -> Place {
        let below = Lines::of(&self.text).line(field).map_or(0, |line| line.saturating_sub(1));
        Place { line: self.place.line + below, ..self.place.clone() }
    }
}

impl Folder {
    /// A folder that is there.
    pub(super) fn new(path: &Path) -> anyhow::Result<Self> {
        path.read_dir().with_context(|| format!("can't read the folder {}", path.display()))?;
        Ok(Self { path: path.to_owned(), files: BTreeMap::new() })
    }

    /// Looks at the files; true if some are others than before. Problems are printed, each once.
    pub(super) fn look(&mut self) -> bool {
        // A folder that can't be read for a moment takes nothing away.
        let Ok(entries) = self.path.read_dir() else { return false };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| is_ours(path));
        let now: BTreeMap<PathBuf, Option<Stamp>> = paths.map(|path| (path.clone(), stamp(&path))).collect();
        let before = self.files.len();
        self.files.retain(|path, _| now.contains_key(path));
        let mut differs = self.files.len() != before;
        for (path, seen) in now {
            let file = self.files.entry(path.clone()).or_insert(File { seen: None, objects: Vec::new() });
            if seen.is_some() && file.seen == seen {
                continue;
            }
            file.seen = seen;
            match read(&path) {
                Ok(objects) => {
                    file.objects = objects;
                    differs = true;
                }
                Err(error) if file.objects.is_empty() => output::note(format_args!("error: {error:#}")),
                Err(error) => {
                    output::note(format_args!("error: {error:#}; what was in it before stays in use"));
                }
            }
        }
        differs
    }

    /// Every object, in the order of files; of two of the same name the first counts, and the other is told.
    pub(super) fn objects(&self) -> (Vec<Written>, Vec<String>) {
        let mut known: BTreeMap<(String, String, String), Place> = BTreeMap::new();
        let (mut objects, mut problems) = (Vec::new(), Vec::new());
        for written in self.files.values().flat_map(|file| &file.objects) {
            let key = key(&written.object);
            if let Some(first) = known.get(&key) {
                problems.push(format!(
                    "{}: {} {}/{} is also in {first}, and that one counts: give one of them another name",
                    written.place, key.0, key.1, key.2
                ));
                continue;
            }
            known.insert(key, written.place.clone());
            objects.push(written.clone());
        }
        (objects, problems)
    }
}

/// Kind, namespace and name.
pub(super) fn key(object: &DynamicObject) -> (String, String, String) {
    let kind = object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    (kind, text(&object.metadata.namespace), text(&object.metadata.name))
}

fn is_ours(path: &Path) -> bool {
    let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    !is_hidden && matches!(ending.as_deref(), Some("yaml" | "yml" | "json")) && path.is_file()
}

fn read(path: &Path) -> anyhow::Result<Vec<Written>> {
    let text = of_file(path)?;
    let mut objects = Vec::new();
    for (first, document) in documents(&text) {
        let value = serde_saphyr::from_str_with_options::<Option<Value>>(&document, options());
        let value = value.map_err(|error| {
            let below = error.location().map_or(0, |at| at.line().saturating_sub(1));
            let words = UserMessageFormatter.format_message(&error).to_string();
            anyhow::anyhow!("{}:{}: {words}", path.display(), first + below)
        })?;
        let Some(value) = value else { continue };
        let place = Place { file: path.to_owned(), line: first };
        let text: std::sync::Arc<str> = document.into();
        let items = match value["items"].as_array() {
            Some(items) if value["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) => items.clone(),
            _ => vec![value],
        };
        for item in items {
            objects.push(Written { object: object(item, &place)?, place: place.clone(), text: text.clone() });
        }
    }
    Ok(objects)
}

/// An object with a namespace, if it is of a kind that has one.
fn object(mut value: Value, place: &Place) -> anyhow::Result<DynamicObject> {
    for field in ["/apiVersion", "/kind", "/metadata/name"] {
        anyhow::ensure!(
            value.pointer(field).and_then(Value::as_str).is_some_and(|text| !text.is_empty()),
            "{place}: {} is missing, so this is no object of Kubernetes",
            field.trim_start_matches('/').replace('/', ".")
        );
    }
    let has_namespace = !OF_THE_WHOLE.iter().any(|kind| value["kind"] == *kind);
    if has_namespace && value.pointer("/metadata/namespace").is_none() {
        value["metadata"]["namespace"] = json!(DEFAULT_NAMESPACE);
    }
    // What is written there is somebody else's word.
    if let Some(fields) = value.as_object_mut() {
        fields.remove("status");
    }
    serde_json::from_value(value).with_context(|| format!("{place}: this is no object of Kubernetes"))
}

/// The documents of a text, each with its first line.
fn documents(text: &str) -> Vec<(u64, String)> {
    let mut documents = vec![(1, String::new())];
    for (number, line) in (1_u64..).zip(text.lines()) {
        if line == "---" || line.starts_with("--- ") {
            documents.push((number + 1, String::new()));
        } else if let Some((_, document)) = documents.last_mut() {
            document.push_str(line);
            document.push('\n');
        }
    }
    documents.retain(|(_, document)| {
        document.lines().any(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
    });
    documents
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "# first\napiVersion: v1\nkind: Service\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Secret\n\
                       metadata:\n  name: b\n  namespace: shop\ntype: Opaque\n";

    #[test]
    fn documents_know_their_lines_and_objects_their_namespace() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.yaml"), TWO).unwrap();
        std::fs::write(
            dir.path().join("b.json"),
            r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"}}"#,
        )
        .unwrap();
        std::fs::write(dir.path().join("notes.txt"), "not read").unwrap();
        let mut folder = Folder::new(dir.path()).unwrap();
        assert!(folder.look() && !folder.look());
        let (objects, problems) = folder.objects();
        let keys: Vec<_> = objects.iter().map(|written| key(&written.object)).collect();
        let expect = |kind: &str, namespace: &str, name: &str| (kind.into(), namespace.into(), name.into());
        assert_eq!(keys, [expect("Service", "default", "a"), expect("Secret", "shop", "b")]);
        assert!(objects[1].place.to_string().ends_with("a.yaml:6"), "{}", objects[1].place);
        assert!(objects[1].place_of("metadata.namespace").to_string().ends_with("a.yaml:10"));
        assert!(problems[0].contains("b.json:1") && problems[0].contains("a.yaml:1"), "{problems:?}");
    }

    #[test]
    fn a_bad_file_leaves_what_was_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.yaml");
        std::fs::write(&path, TWO).unwrap();
        let mut folder = Folder::new(dir.path()).unwrap();
        assert!(folder.look());
        std::fs::write(&path, "apiVersion: v1\nkind: [broken\n").unwrap();
        assert!(!folder.look());
        assert_eq!(folder.objects().0.len(), 2);
        std::fs::remove_file(&path).unwrap();
        assert!(folder.look());
        assert_eq!(folder.objects().0.len(), 0);
    }

    #[test]
    fn says_which_line_is_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.yaml");
        for (text, part) in [
            ("apiVersion: v1\nkind: Service\nmetadata: {name: a}\n---\nkind: [x\n", "a.yaml:"),
            ("\n---\napiVersion: v1\nkind: Service\n", "a.yaml:3: metadata.name is missing"),
            ("just words\n", "a.yaml:1: apiVersion is missing"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = format!("{:#}", read(&path).err().unwrap());
            assert!(error.contains(part), "{error}");
        }
    }
}
