//! Whether values are what `values.schema.json` says: the few words of JSON Schema that are used there.

use regex::Regex;
use serde_json::Value;

/// What is wrong, each with its path and what may be there.
pub(crate) fn problems(schema: &Value, value: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    check(schema, value, "", &mut problems);
    problems
}

fn check(schema: &Value, value: &Value, path: &str, problems: &mut Vec<String>) {
    let at = if path.is_empty() { "the values" } else { path };
    let mut say = |what: String| problems.push(format!("{at}: {what}"));
    let is = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.is_u64(),
        _ => true,
    };
    if !is {
        say(format!("{value} is no {}", schema["type"].as_str().unwrap_or_default()));
        return;
    }
    if let Some(allowed) = schema["enum"].as_array().filter(|allowed| !allowed.contains(value)) {
        let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
        say(format!("{value} is none of {}", allowed.join(", ")));
    }
    if let (Some(pattern), Some(text)) = (schema["pattern"].as_str(), value.as_str())
        && !Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text))
    {
        say(format!("{value} is not as it has to be: {pattern}"));
    }
    if let Some(number) = value.as_i64() {
        if schema["minimum"].as_i64().is_some_and(|least| number < least) {
            say(format!("{number} is less than {}", schema["minimum"]));
        }
        if schema["maximum"].as_i64().is_some_and(|most| number > most) {
            say(format!("{number} is more than {}", schema["maximum"]));
        }
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        check(&schema["items"], item, &format!("{path}[{index}]"), problems);
    }
    for (key, item) in value.as_object().into_iter().flatten() {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let known = schema["properties"].get(key);
        let others = &schema["additionalProperties"];
        match known {
            Some(known) => check(known, item, &path, problems),
            None if *others == Value::Bool(false) => {
                let names: Vec<&str> = schema["properties"]
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(name, _)| name.as_str())
                    .collect();
                problems.push(format!("{path}: there is no such value here, but {}", names.join(", ")));
            }
            None => check(others, item, &path, problems),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let schema = json!({
            "type": "object", "additionalProperties": false,
            "properties": {
                "n": {"type": "integer", "minimum": 1, "maximum": 3},
                "e": {"type": "string", "enum": ["a", "b"]},
                "p": {"type": "string", "pattern": "^x*$"},
                "l": {"type": "array", "items": {"type": "string"}},
                "m": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        });
        let fine = json!({"n": 3, "e": "b", "p": "xx", "l": ["a"], "m": {"k": "v"}});
        assert_eq!(problems(&schema, &fine), Vec::<String>::new());
        for (value, says) in [
            (json!({"n": 4}), "n: 4 is more than 3"),
            (json!({"n": "x"}), "n: \"x\" is no integer"),
            (json!({"e": "c"}), "e: \"c\" is none of \"a\", \"b\""),
            (json!({"p": "y"}), "p: \"y\" is not as it has to be: ^x*$"),
            (json!({"l": [1]}), "l[0]: 1 is no string"),
            (json!({"m": {"k": 1}}), "m.k: 1 is no string"),
            (json!({"z": 1}), "z: there is no such value here, but "),
            (json!([]), "the values: [] is no object"),
        ] {
            let problems = problems(&schema, &value);
            assert!(problems.len() == 1 && problems[0].starts_with(says), "{problems:?}");
        }
    }
}
