//! Values over values, as Helm has them: files over the chart's own, single ones (`--set`) over files.

use serde_json::{Map, Value, json};

use crate::{Error, document};

/// `over` on top of `base`: maps one by one, all else as a whole; null takes out what is below it.
pub(crate) fn over(base: Value, over: &Value) -> Value {
    let (mut base, entries) = match (base, over) {
        (Value::Object(base), Value::Object(entries)) => (base, entries),
        (_, other) => return other.clone(),
    };
    for (key, value) in entries {
        if value.is_null() {
            base.remove(key);
        } else {
            let below = base.remove(key).unwrap_or(Value::Null);
            base.insert(key.clone(), self::over(below, value));
        }
    }
    Value::Object(base)
}

/// The values of these files, by name and text, a later one over an earlier one.
///
/// # Errors
/// When one of them is no map in YAML.
pub fn with_files(files: &[(String, String)]) -> Result<Value, Error> {
    let mut all = json!({});
    for (file, text) in files {
        let refused = |message: String| Error::Yaml { file: file.clone(), message };
        let read = document::parse(text).map_err(refused)?;
        match read {
            Value::Null => {}
            Value::Object(_) => all = merge_overrides(all, &read),
            _ => {
                return Err(Error::Yaml {
                    file: file.clone(),
                    message: "these are no values: write `key: value`".into(),
                });
            }
        }
    }
    Ok(all)
}

/// Overrides over overrides: null is kept, since it still has to take out what the chart says.
fn merge_overrides(base: Value, over: &Value) -> Value {
    match (base, over) {
        (Value::Object(mut base), Value::Object(entries)) => {
            for (key, value) in entries {
                let below = base.remove(key).unwrap_or(Value::Null);
                base.insert(key.clone(), merge_overrides(below, value));
            }
            Value::Object(base)
        }
        (_, other) => other.clone(),
    }
}

/// Puts one `--set` into the values: `a.b=c`, several with commas between, `a={x,y}` for a list, `a[0].b=c` for an entry of one;
/// `\` before a dot or comma that means nothing.
///
/// # Errors
/// When it is not written like that.
pub fn set(values: &mut Value, text: &str) -> Result<(), Error> {
    for one in pieces(text, ',') {
        let refused = |why: &str| Error::Values(vec![format!("--set {one}: {why}")]);
        let (path, value) = one.split_once('=').ok_or_else(|| refused("write KEY=VALUE"))?;
        let mut steps = Vec::new();
        for piece in pieces(path, '.') {
            let (name, indices) =
                piece.split_once('[').map_or((piece.as_str(), ""), |(name, rest)| (name, rest));
            if name.is_empty() {
                return Err(refused("a part of the key is empty"));
            }
            steps.push(Step::Key(name.replace('\\', "")));
            for index in indices.split_terminator(']').map(|index| index.trim_start_matches('[')) {
                let index: usize = index.parse().map_err(|_| refused("an index is a number: a[0]"))?;
                if index > 1000 {
                    return Err(refused("that index is too large"));
                }
                steps.push(Step::Index(index));
            }
        }
        put(values, &steps, scalar_or_list(value));
    }
    Ok(())
}

enum Step {
    Key(String),
    Index(usize),
}

fn put(place: &mut Value, steps: &[Step], value: Value) {
    match steps.split_first() {
        None => *place = value,
        Some((Step::Key(key), rest)) => {
            if !place.is_object() {
                *place = Value::Object(Map::new());
            }
            if let Value::Object(map) = place {
                put(map.entry(key.clone()).or_insert(Value::Null), rest, value);
            }
        }
        Some((Step::Index(index), rest)) => {
            if !place.is_array() {
                *place = Value::Array(Vec::new());
            }
            if let Value::Array(list) = place {
                while list.len() <= *index {
                    list.push(Value::Null);
                }
                if let Some(entry) = list.get_mut(*index) {
                    put(entry, rest, value);
                }
            }
        }
    }
}

/// The text between separators that are not escaped and not in braces.
fn pieces(text: &str, separator: char) -> Vec<String> {
    let (mut all, mut depth, mut is_escaped) = (vec![String::new()], 0_usize, false);
    for letter in text.chars() {
        if letter == separator && depth == 0 && !is_escaped {
            all.push(String::new());
            continue;
        }
        match letter {
            '{' if !is_escaped => depth += 1,
            '}' if !is_escaped => depth = depth.saturating_sub(1),
            _ => {}
        }
        is_escaped = letter == '\\' && !is_escaped;
        if let Some(last) = all.last_mut() {
            last.push(letter);
        }
    }
    all
}

fn scalar_or_list(text: &str) -> Value {
    match text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        Some("") => json!([]),
        Some(inner) => pieces(inner, ',').iter().map(|one| scalar(one)).collect(),
        None => scalar(text),
    }
}

fn scalar(text: &str) -> Value {
    match text {
        "true" => json!(true),
        "false" => json!(false),
        "null" => Value::Null,
        "0" => json!(0),
        _ if !text.starts_with('0') && text.parse::<i64>().is_ok() => json!(text.parse::<i64>().ok()),
        _ => json!(text.replace("\\,", ",").replace("\\.", ".").replace("\\\\", "\\")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_single_values_lie_over_the_charts() {
        let base = json!({"a": {"b": 1, "c": [1]}, "d": "x"});
        assert_eq!(
            over(base.clone(), &json!({"a": {"c": [2, 3]}, "d": null, "e": true})),
            json!({"a": {"b": 1, "c": [2, 3]}, "e": true})
        );
        let files = [("one".into(), "a: {b: 2}\nf: 1".into()), ("two".into(), "a: {c: null}\n".into())];
        let files = with_files(&files).unwrap();
        assert_eq!(over(base, &files), json!({"a": {"b": 2}, "d": "x", "f": 1}));
        assert!(with_files(&[("x".into(), "- a".into())]).is_err());
        assert_eq!(with_files(&[("x".into(), "# nothing\n".into())]).unwrap(), json!({}));
    }

    #[test]
    fn single_values_are_written_as_for_helm() {
        for (text, wanted) in [
            ("a.b=c", json!({"a": {"b": "c"}})),
            ("a=1,b=true,c=null", json!({"a": 1, "b": true, "c": null})),
            ("a={x,2}", json!({"a": ["x", 2]})),
            ("a[1].b=x", json!({"a": [null, {"b": "x"}]})),
            (r"a.b\.c/d=e", json!({"a": {"b.c/d": "e"}})),
            (r"a=1\,2", json!({"a": "1,2"})),
            ("a=007", json!({"a": "007"})),
            ("a=", json!({"a": ""})),
            ("a=b=c", json!({"a": "b=c"})),
        ] {
            let mut values = json!({});
            set(&mut values, text).unwrap();
            assert_eq!(values, wanted, "{text}");
        }
        for text in ["a", ".a=1", "a[x]=1", "a[99999999]=1", ""] {
            assert!(set(&mut json!({}), text).is_err(), "{text}");
        }
    }
}
