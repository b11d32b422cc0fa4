//! A file's text as a plan, or what keeps it from being one: the field, its line, and what to write instead.

use std::fmt;
use std::path::Path;

use anyhow::anyhow;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Error, MessageFormatter as _, UserMessageFormatter};

/// Fields and words of plans as they were before the table in CHANGELOG.md.
const OLD: [&str; 13] = [
    "TCP",
    "UDP",
    "acceptProxyProtocol",
    "cluster",
    "control",
    "data",
    "dataLinks",
    "noServerName",
    "plaintext",
    "routes",
    "sniff",
    "targets",
    "unknownServerName",
];

/// Reads a plan; none for a file without anything in it.
///
/// # Errors
/// With one line that names the file, the line and the field, and says what to write.
pub(crate) fn parse<T: DeserializeOwned>(path: &Path, text: &str) -> anyhow::Result<Option<T>> {
    // What programs write is read many times as quickly this way; all that is wrong is found below. A list could pass for the
    // fields in their order.
    if text.trim_start().starts_with('{')
        && let Ok(plan) = json(text)
    {
        return Ok(Some(plan));
    }
    // A key without a value reads as an empty list, or as every default. Half a file must not take listeners away.
    let written = read::<Option<Written>>(text);
    written.and_then(|_| read(text)).map_err(|Wrong { field, error }| {
        let line = error.location().map_or_else(String::new, |at| format!(":{}", at.line()));
        let words = words(&field, &error, text);
        let field = if field.is_empty() { field } else { format!("{field}: ") };
        anyhow!("{}{line}: {field}{words}", path.display())
    })
}

fn json<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    serde_json::from_str::<Written>(text)?;
    serde_json::from_str(text)
}

pub(crate) fn options() -> serde_saphyr::Options {
    let mut options = serde_saphyr::Options::default();
    // The parser's budget is for documents of strangers; a plan of 100,000 routes is beyond it.
    options.budget = None;
    options.with_snippet = false;
    options
}

/// What is wrong with a field; its path is empty if it is the whole.
struct Wrong {
    field: String,
    error: Error,
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, Wrong> {
    serde_saphyr::from_str_with_options(text, options()).map_err(|error| {
        // Once more, for its place: it costs too much to keep for a plan that is right.
        let mut field = String::new();
        let again = serde_saphyr::with_deserializer_from_str_with_options(text, options(), |deserializer| {
            serde_path_to_error::deserialize::<_, T>(deserializer).map_err(|error| {
                field = error.path().to_string();
                error.into_inner()
            })
        });
        drop(again);
        // What is not a key of its own, like the whole or a second key of the same name, is a `?` or nothing at the end.
        let field = field.trim_end_matches(['?', '.']).to_owned();
        Wrong { field, error }
    })
}

fn words(field: &str, error: &Error, text: &str) -> String {
    let name = field.rsplit('.').next().unwrap_or_default();
    match error {
        Error::SerdeUnknownField { field, expected, .. } => {
            format!("there is no such field here: write {}{}", any_of(expected), before(field))
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            format!("`{variant}` is not known here: write {}{}", any_of(expected), before(variant))
        }
        Error::SerdeMissingField { field, .. } => format!("`{field}` is missing"),
        Error::InvalidScalar { ty, .. } => {
            let wanted = match *ty {
                "u16" => "a whole number of at most 65535",
                "u32" => "a whole number of at most 4294967295",
                "boolean" => "true or false",
                ty => ty,
            };
            format!("`{}` does not fit: write {wanted}", value(error, text))
        }
        Error::Unexpected { expected: "mapping start", .. } => {
            format!("write fields here, like {{name: value}}, or {{}} for none{}", before(name))
        }
        Error::Unexpected { expected: "sequence start", .. } => {
            format!("write a list here, like [a, b], or [] for none{}", before(name))
        }
        Error::ExpectedMappingEndAfterEnumVariantValue { .. } => {
            "nothing can be written beside this: keep one of them".to_owned()
        }
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("`{key}` is written twice"),
        Error::MultipleDocuments { .. } => {
            "a plan is one document: remove what follows `---`, or make it a file of its own".to_owned()
        }
        error => match &*UserMessageFormatter.format_message(error) {
            "invalid socket address syntax" => {
                let written = value(error, text);
                format!(
                    "`{written}` is not an address with a port: write one, like 10.0.0.2:53 or [fd00::2]:53"
                )
            }
            "invalid IP address syntax" => {
                let written = value(error, text);
                format!(
                    "`{written}` is not an address: write one, like 10.0.0.2 or fd00::2, or a network, like 10.0.0.0/24"
                )
            }
            message => message.to_owned(),
        },
    }
}

fn any_of(expected: &[&str]) -> String {
    match expected {
        [others @ .., last] if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        all => all.concat(),
    }
}

fn before(word: &str) -> &'static str {
    if OLD.contains(&word) { "; plans of before are rewritten by the table in CHANGELOG.md" } else { "" }
}

/// What is written where the error is.
fn value<'a>(error: &Error, text: &'a str) -> &'a str {
    let written = error.location().and_then(|at| {
        let start = usize::try_from(at.span().byte_offset()?).ok()?;
        text.get(start..start + usize::try_from(at.span().byte_len()?).ok()?)
    });
    written.unwrap_or("this")
}

/// Something that has a value everywhere.
struct Written;

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Values)
    }
}

struct Values;

impl<'de> Visitor<'de> for Values {
    type Value = Written;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Written, A::Error> {
        while map.next_entry::<String, Written>()?.is_some() {}
        Ok(Written)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Written, A::Error> {
        while list.next_element::<Written>()?.is_some() {}
        Ok(Written)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Written, E> {
        Ok(Written)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Written, E> {
        Ok(Written)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Written, E> {
        Ok(Written)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Written, E> {
        Ok(Written)
    }

    fn visit_str<E>(self, _: &str) -> Result<Written, E> {
        Ok(Written)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Written, E> {
        Err(E::custom("there is no value: write one, [] for an empty list, or leave the field out"))
    }
}
