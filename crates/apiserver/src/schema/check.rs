//! Types, limits, formats and combinations: everything a schema says without CEL, in the words of Kubernetes.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Display;

use serde_json::{Map, Value, json};

use super::path::Path;
use super::{ListType, Node, Schema, Type, format};
use crate::error::{FieldError, FieldErrorKind};

/// One validation run.
pub(super) struct Checker<'s, 'e> {
    pub schema: &'s Schema,
    pub errors: &'e mut Vec<FieldError>,
}

impl Checker<'_, '_> {
    /// Checks `value` and everything below it. What equals its `old` value is not judged again.
    pub(super) fn check(&mut self, node: &Node, value: &Value, old: Option<&Value>, path: &Path<'_>) {
        if old == Some(value) || !self.has_type(node, value, path) {
            return;
        }
        self.combinations(node, value, path);
        match value {
            Value::String(text) => self.string(node, text, value, path),
            Value::Number(number) => self.number(node, number, value, path),
            Value::Array(items) => self.array(node, items, old, path),
            Value::Object(map) => self.object(node, map, old, path),
            Value::Null | Value::Bool(_) => {}
        }
        self.enumeration(node, value, path);
    }

    fn has_type(&mut self, node: &Node, value: &Value, path: &Path<'_>) -> bool {
        let fits = match (node.ty, value) {
            (None, _) if !node.int_or_string => true,
            (_, Value::Null) => node.nullable,
            (None | Some(Type::Integer), Value::Number(n)) => is_integer(n),
            (None | Some(Type::String), Value::String(_))
            | (Some(Type::Array), Value::Array(_))
            | (Some(Type::Boolean), Value::Bool(_))
            | (Some(Type::Number), Value::Number(_))
            | (Some(Type::Object), Value::Object(_)) => true,
            _ => false,
        };
        if !fits {
            let wanted = node.ty.map_or("integer,string", Type::name);
            let found = type_name(value);
            self.bad_type(path, &Value::from(found), wanted, found);
        }
        fits
    }

    fn bad_type(&mut self, path: &Path<'_>, value: &Value, wanted: &str, found: &str) {
        let path = path.dotted();
        let detail = format!("{path} in body must be of type {wanted}: {found:?}");
        self.errors.push(FieldError::new(FieldErrorKind::TypeInvalid, path, detail).with_value(value));
    }

    /// An `Invalid value` whose text repeats the path, as Kubernetes' schema checks do.
    fn invalid(&mut self, path: &Path<'_>, value: &Value, should: impl Display) {
        let path = path.dotted();
        let detail = format!("{path} in body should {should}");
        self.errors.push(FieldError::invalid(path, value, detail));
    }

    fn string(&mut self, node: &Node, text: &str, value: &Value, path: &Path<'_>) {
        if node.min_length.is_some() || node.max_length.is_some() {
            let length = text.chars().count() as u64;
            if let Some(max) = node.max_length.filter(|max| length > *max) {
                let unit = if max == 1 { "byte" } else { "bytes" };
                let detail = format!("may not be more than {max} {unit}");
                self.errors.push(FieldError::new(FieldErrorKind::TooLong, path.dotted(), detail));
            }
            if let Some(min) = node.min_length.filter(|min| length < *min) {
                self.invalid(path, value, format_args!("be at least {min} chars long"));
            }
        }
        if let Some(pattern) = &node.pattern {
            match self.schema.pattern(pattern) {
                Some(regex) if regex.is_match(text) => {}
                Some(_) => self.invalid(path, value, format_args!("match '{pattern}'")),
                None => self.invalid(path, value, format_args!("match '{pattern}', but pattern is invalid")),
            }
        }
        if let Some(name) = &node.format
            && !node.int_or_string
            && !format::accepts(name, text)
        {
            self.bad_type(path, value, name, text);
        }
    }

    fn number(&mut self, node: &Node, number: &serde_json::Number, value: &Value, path: &Path<'_>) {
        let Some(float) = number.as_f64() else { return };
        let range = match (node.ty, node.format.as_deref()) {
            (Some(Type::Integer), Some("int32")) => Some((f64::from(i32::MIN), f64::from(i32::MAX))),
            (Some(Type::Integer), _) => Some((i64::MIN as f64, i64::MAX as f64)),
            _ => None,
        };
        if range.is_some_and(|(min, max)| float < min || float > max) {
            let name = node.format.as_deref().unwrap_or("int64");
            self.bad_type(path, value, name, &number.to_string());
            return;
        }
        if let Some(max) = node.maximum {
            if node.exclusive_maximum && float >= max {
                self.invalid(path, value, format_args!("be less than {max}"));
            } else if float > max {
                self.invalid(path, value, format_args!("be less than or equal to {max}"));
            }
        }
        if let Some(min) = node.minimum {
            if node.exclusive_minimum && float <= min {
                self.invalid(path, value, format_args!("be greater than {min}"));
            } else if float < min {
                self.invalid(path, value, format_args!("be greater than or equal to {min}"));
            }
        }
        if let Some(factor) = node.multiple_of.filter(|f| *f > 0.0) {
            let quotient = float / factor;
            if (quotient - quotient.round()).abs() > 1e-9 {
                self.invalid(path, value, format_args!("be a multiple of {factor}"));
            }
        }
    }

    fn array(&mut self, node: &Node, items: &[Value], old: Option<&Value>, path: &Path<'_>) {
        let count = items.len() as u64;
        if let Some(max) = node.max_items.filter(|max| count > *max) {
            self.too_many(path, count, max);
        }
        if let Some(min) = node.min_items.filter(|min| count < *min) {
            self.invalid(path, &json!(count), format_args!("have at least {min} items"));
        }
        if node.unique_items && !duplicates(items.iter()).is_empty() {
            let path = path.dotted();
            let detail = format!("{path} in body shouldn't contain duplicates");
            self.errors.push(FieldError::invalid(path, &json!(""), detail));
        }
        self.list_type(node, items, path);
        let Some(schema) = node.items.as_deref() else {
            return;
        };
        let correlation = Correlation::new(&node.list_type, old);
        for (i, item) in items.iter().enumerate() {
            self.check(schema, item, correlation.find(item), &Path::Index(path, i));
        }
    }

    fn list_type(&mut self, node: &Node, items: &[Value], path: &Path<'_>) {
        match &node.list_type {
            ListType::Atomic => {}
            ListType::Set => {
                for i in duplicates(items.iter()) {
                    self.errors.push(FieldError::duplicate(Path::Index(path, i).keyed(), &items[i]));
                }
            }
            ListType::Map(keys) => {
                let stray = items.iter().position(|item| !item.is_object() && !item.is_null());
                if let Some(i) = stray {
                    let detail = "must be an object for an array of list-type map";
                    self.errors.push(FieldError::invalid(Path::Index(path, i).keyed(), &items[i], detail));
                    return;
                }
                if items.len() < 2 {
                    return;
                }
                // As text: the fields come in the order of the keys, and long lists need a hash.
                let texts: Vec<Value> =
                    items.iter().map(|item| identity(item, keys).to_string().into()).collect();
                for i in duplicates(texts.iter()) {
                    let path = Path::Index(path, i).keyed();
                    self.errors.push(FieldError::duplicate(path, &identity(&items[i], keys)));
                }
            }
        }
    }

    fn object(&mut self, node: &Node, map: &Map<String, Value>, old: Option<&Value>, path: &Path<'_>) {
        let count = map.len() as u64;
        if let Some(max) = node.max_properties.filter(|max| count > *max) {
            self.too_many(path, count, max);
        }
        if let Some(min) = node.min_properties.filter(|min| count < *min) {
            self.invalid(path, &json!(count), format_args!("have at least {min} properties"));
        }
        for name in &node.required {
            if !map.contains_key(name) {
                self.errors.push(FieldError::required(Path::Field(path, name).dotted(), ""));
            }
        }
        if node.embedded_resource {
            self.embedded(map, path);
        }
        for (key, child) in map {
            if let Some(field) = node.field(key) {
                self.check(field, child, old.and_then(|o| o.get(key)), &Path::Field(path, key));
            }
        }
    }

    /// An embedded object must say what it is.
    fn embedded(&mut self, map: &Map<String, Value>, path: &Path<'_>) {
        for name in ["apiVersion", "kind"] {
            let path = Path::Field(path, name);
            match map.get(name) {
                Some(Value::String(text)) if !text.is_empty() => {}
                None | Some(Value::Null | Value::String(_)) => {
                    self.errors.push(FieldError::required(path.dotted(), "must not be empty"));
                }
                Some(other) => {
                    self.bad_type(&path, &Value::from(type_name(other)), "string", type_name(other));
                }
            }
        }
        if let Some(metadata) = map.get("metadata").filter(|m| !m.is_object() && !m.is_null()) {
            let found = type_name(metadata);
            self.bad_type(&Path::Field(path, "metadata"), &Value::from(found), "object", found);
        }
    }

    fn too_many(&mut self, path: &Path<'_>, count: u64, max: u64) {
        let unit = if max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {max} {unit}");
        let error = FieldError::new(FieldErrorKind::TooMany, path.dotted(), detail);
        self.errors.push(error.with_value(&json!(count)));
    }

    fn enumeration(&mut self, node: &Node, value: &Value, path: &Path<'_>) {
        if node.enumeration.is_empty() || node.enumeration.iter().any(|allowed| same(allowed, value)) {
            return;
        }
        let names: Vec<String> = node
            .enumeration
            .iter()
            .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.errors.push(FieldError::not_supported(path.dotted(), value, &names));
    }

    fn combinations(&mut self, node: &Node, value: &Value, path: &Path<'_>) {
        if !node.any_of.is_empty() {
            let mut results = node.any_of.iter().map(|branch| self.branch(branch, value, path));
            let mut best: Option<Vec<FieldError>> = None;
            let valid = loop {
                match results.next() {
                    None => break false,
                    Some(errors) if errors.is_empty() => break true,
                    Some(errors) => keep_better(&mut best, errors),
                }
            };
            if !valid {
                self.combination(path, "must validate at least one schema (anyOf)");
                self.errors.extend(best.unwrap_or_default());
            }
        }
        if !node.one_of.is_empty() {
            let mut best = None;
            let mut valid = 0;
            for branch in &node.one_of {
                let errors = self.branch(branch, value, path);
                if errors.is_empty() {
                    valid += 1;
                } else {
                    keep_better(&mut best, errors);
                }
            }
            if valid == 0 {
                self.combination(path, "must validate one and only one schema (oneOf). Found none valid");
                self.errors.extend(best.unwrap_or_default());
            } else if valid > 1 {
                let words = format!(
                    "must validate one and only one schema (oneOf). Found {valid} valid alternatives"
                );
                self.combination(path, &words);
            }
        }
        if !node.all_of.is_empty() {
            let before = self.errors.len();
            let mut valid = 0;
            for branch in &node.all_of {
                let errors = self.branch(branch, value, path);
                valid += usize::from(errors.is_empty());
                self.errors.extend(errors);
            }
            if self.errors.len() > before {
                let none = if valid == 0 { ". None validated" } else { "" };
                self.combination(path, &format!("must validate all the schemas (allOf){none}"));
            }
        }
        if let Some(not) = &node.not
            && self.branch(not, value, path).is_empty()
        {
            self.combination(path, "must not validate the schema (not)");
        }
    }

    fn branch(&self, branch: &Node, value: &Value, path: &Path<'_>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        Checker { schema: self.schema, errors: &mut errors }.check(branch, value, None, path);
        errors
    }

    /// Kubernetes reports these without a field of their own; the path is in the text.
    fn combination(&mut self, path: &Path<'_>, words: &str) {
        let detail = format!("{:?} {words}", path.dotted());
        self.errors.push(FieldError::invalid("", &json!(""), detail));
    }
}

/// The branch that came closest explains best what to change.
fn keep_better(best: &mut Option<Vec<FieldError>>, errors: Vec<FieldError>) {
    if best.as_ref().is_none_or(|b| errors.len() < b.len()) {
        *best = Some(errors);
    }
}

/// Finds the old item that a list item continues: by its keys in a list of type map, else not at all.
pub(super) struct Correlation<'a> {
    keys: &'a [String],
    old: &'a [Value],
}

impl<'a> Correlation<'a> {
    pub(super) fn new(list_type: &'a ListType, old: Option<&'a Value>) -> Self {
        match (list_type, old) {
            (ListType::Map(keys), Some(Value::Array(old))) => Self { keys, old },
            _ => Self { keys: &[], old: &[] },
        }
    }

    pub(super) fn find(&self, item: &Value) -> Option<&'a Value> {
        let continues = |old: &&Value| {
            item.is_object() && old.is_object() && self.keys.iter().all(|key| item.get(key) == old.get(key))
        };
        self.old.iter().find(continues)
    }
}

fn identity(item: &Value, keys: &[String]) -> Value {
    keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone()))).collect::<Map<_, _>>().into()
}

/// The index of the first repetition of each value that occurs more than once.
fn duplicates<'a>(values: impl ExactSizeIterator<Item = &'a Value>) -> Vec<usize> {
    if values.len() < 2 {
        return Vec::new();
    }
    let mut scalars: HashMap<String, bool> = HashMap::with_capacity(values.len());
    // Two objects are equal whatever the order of their fields, so their text can't stand for them.
    let mut compounds: Vec<(&Value, bool)> = Vec::new();
    let mut found = Vec::new();
    for (i, value) in values.enumerate() {
        let reported = if value.is_object() || value.is_array() {
            let Some((_, reported)) = compounds.iter_mut().find(|(seen, _)| *seen == value) else {
                compounds.push((value, false));
                continue;
            };
            reported
        } else {
            match scalars.entry(value.to_string()) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    entry.insert(false);
                    continue;
                }
            }
        };
        if !std::mem::replace(reported, true) {
            found.push(i);
        }
    }
    found
}

/// Equality in which 1 and 1.0 are the same number.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

fn is_integer(number: &serde_json::Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|f| f.fract() == 0.0)
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
