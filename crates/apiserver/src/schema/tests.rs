use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn schema(properties: Value) -> Schema {
    let openapi =
        json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": properties } } });
    Schema::compile(&openapi).unwrap_or_else(|e| panic!("{e:?}"))
}

/// The errors of an object whose `spec` is given, as text.
fn errors(schema: &Schema, spec: Value) -> Vec<String> {
    schema.validate(&json!({ "spec": spec }), None).iter().map(ToString::to_string).collect()
}

#[test]
fn says_what_is_wrong_in_the_words_of_kubernetes() {
    let schema = schema(json!({
        "port": { "type": "integer", "minimum": 1, "maximum": 65535 },
        "level": { "type": "integer", "minimum": 1, "exclusiveMinimum": true, "multipleOf": 2 },
        "small": { "type": "integer", "format": "int32" },
        "mode": { "type": "string", "enum": ["A", "B"] },
        "name": { "type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$" },
        "list": { "type": "array", "minItems": 1, "maxItems": 2, "items": { "type": "string" } },
        "set": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } },
        "map": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                 "items": { "type": "object", "properties": { "name": { "type": "string" } } } },
        "labels": { "type": "object", "maxProperties": 1, "additionalProperties": { "type": "string" } },
        "inner": { "type": "object", "required": ["a"], "properties": { "a": { "type": "string" } } },
        "target": { "x-kubernetes-int-or-string": true },
        "address": { "type": "string", "format": "ipv4" },
        "maybe": { "type": "string", "nullable": true },
        "raw": { "type": "object", "x-kubernetes-embedded-resource": true,
                 "x-kubernetes-preserve-unknown-fields": true },
        "choice": { "type": "object", "properties": { "x": { "type": "string" }, "y": { "type": "string" } },
                    "oneOf": [{ "required": ["x"] }, { "required": ["y"] }] },
        "any": { "type": "object", "properties": { "x": { "type": "string" } }, "anyOf": [{ "required": ["x"] }] },
        "not": { "type": "string", "not": { "enum": ["never"] } },
    }));
    let cases: &[(Value, &[&str])] = &[
        (
            json!({ "port": "x" }),
            &[r#"spec.port: Invalid value: "string": spec.port in body must be of type integer: "string""#],
        ),
        (json!({ "port": 80, "mode": "A", "name": "abc", "list": ["x"], "target": 1, "maybe": null }), &[]),
        (json!({ "port": 80.0 }), &[]),
        (
            json!({ "port": 80.5 }),
            &[r#"spec.port: Invalid value: "number": spec.port in body must be of type integer: "number""#],
        ),
        (
            json!({ "port": 0 }),
            &["spec.port: Invalid value: 0: spec.port in body should be greater than or equal to 1"],
        ),
        (
            json!({ "port": 70000 }),
            &["spec.port: Invalid value: 70000: spec.port in body should be less than or equal to 65535"],
        ),
        (
            json!({ "level": 1 }),
            &[
                "spec.level: Invalid value: 1: spec.level in body should be greater than 1",
                "spec.level: Invalid value: 1: spec.level in body should be a multiple of 2",
            ],
        ),
        (
            json!({ "small": 3_000_000_000_u64 }),
            &[
                r#"spec.small: Invalid value: 3000000000: spec.small in body must be of type int32: "3000000000""#,
            ],
        ),
        (json!({ "mode": "C" }), &[r#"spec.mode: Unsupported value: "C": supported values: "A", "B""#]),
        (json!({ "name": "abcde" }), &["spec.name: Too long: may not be more than 4 bytes"]),
        (
            json!({ "name": "a" }),
            &[r#"spec.name: Invalid value: "a": spec.name in body should be at least 2 chars long"#],
        ),
        (
            json!({ "name": "A1" }),
            &[r#"spec.name: Invalid value: "A1": spec.name in body should match '^[a-z]+$'"#],
        ),
        (
            json!({ "list": [] }),
            &["spec.list: Invalid value: 0: spec.list in body should have at least 1 items"],
        ),
        (json!({ "list": ["a", "b", "c"] }), &["spec.list: Too many: 3: must have at most 2 items"]),
        (
            json!({ "list": [1] }),
            &[
                r#"spec.list[0]: Invalid value: "integer": spec.list[0] in body must be of type string: "integer""#,
            ],
        ),
        (json!({ "set": ["a", "b", "a", "a"] }), &[r#"spec.set[2]: Duplicate value: "a""#]),
        (
            json!({ "map": [{ "name": "a" }, { "name": "b" }, { "name": "a" }] }),
            &[r#"spec.map[2]: Duplicate value: {"name":"a"}"#],
        ),
        (
            json!({ "labels": { "a": 1 } }),
            &[
                r#"spec.labels.a: Invalid value: "integer": spec.labels.a in body must be of type string: "integer""#,
            ],
        ),
        (json!({ "labels": { "a": "", "b": "" } }), &["spec.labels: Too many: 2: must have at most 1 item"]),
        (json!({ "inner": {} }), &["spec.inner.a: Required value"]),
        (
            json!({ "target": true }),
            &[
                r#"spec.target: Invalid value: "boolean": spec.target in body must be of type integer,string: "boolean""#,
            ],
        ),
        (
            json!({ "address": "1.2.3" }),
            &[r#"spec.address: Invalid value: "1.2.3": spec.address in body must be of type ipv4: "1.2.3""#],
        ),
        (
            json!({ "port": null }),
            &[r#"spec.port: Invalid value: "null": spec.port in body must be of type integer: "null""#],
        ),
        (
            json!({ "raw": { "kind": "X", "more": 1 } }),
            &["spec.raw.apiVersion: Required value: must not be empty"],
        ),
        (
            json!({ "choice": {} }),
            &[
                r#"<nil>: Invalid value: "": "spec.choice" must validate one and only one schema (oneOf). Found none valid"#,
                "spec.choice.x: Required value",
            ],
        ),
        (
            json!({ "choice": { "x": "", "y": "" } }),
            &[
                r#"<nil>: Invalid value: "": "spec.choice" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
            ],
        ),
        (
            json!({ "any": {} }),
            &[
                r#"<nil>: Invalid value: "": "spec.any" must validate at least one schema (anyOf)"#,
                "spec.any.x: Required value",
            ],
        ),
        (
            json!({ "not": "never" }),
            &[r#"<nil>: Invalid value: "": "spec.not" must not validate the schema (not)"#],
        ),
    ];
    for (spec, expected) in cases {
        assert_eq!(errors(&schema, spec.clone()), *expected, "{spec}");
    }
}

#[test]
fn checks_formats() {
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("ipv4", &["10.0.0.1"], &["10.0.0.256", "::1", ""]),
        ("ipv6", &["::1", "fe80::1"], &["10.0.0.1", "fe80"]),
        ("ip", &["::1", "10.0.0.1"], &["host"]),
        ("cidr", &["10.0.0.0/8", "fd00::/64"], &["10.0.0.0", "10.0.0.0/33"]),
        ("date", &["2026-02-28"], &["2026-02-30", "2026-2-3", "x"]),
        ("date-time", &["2026-02-28T01:02:03Z", "2026-02-28T01:02:03.5+02:00"], &["2026-02-28", "noon"]),
        ("duration", &["1h30m", "1.5s", "-3ms", "0", "3 weeks"], &["1", "h", "1x", ""]),
        (
            "uuid",
            &["123e4567-e89b-12d3-a456-426614174000"],
            &["123e4567", "123e4567-e89b-12d3-a456-42661417400g"],
        ),
        ("uuid4", &["123e4567-e89b-42d3-a456-426614174000"], &["123e4567-e89b-12d3-a456-426614174000"]),
        ("hostname", &["a.example.com", "a"], &["-a", "a..b", "a_b", ""]),
        ("email", &["a@example.com", "A <a@example.com>"], &["a", "@example.com", "a@"]),
        ("uri", &["https://example.com/x", "/path"], &["example", "a b", ""]),
        ("byte", &["aGk=", ""], &["a", "aGk"]),
        ("mac", &["00:11:22:33:44:55", "00-11-22-33-44-55"], &["00:11:22:33:44"]),
        ("password", &["anything"], &[]),
        ("quantity", &["anything"], &[]),
    ];
    for (name, good, bad) in cases {
        good.iter().for_each(|text| assert!(format::accepts(name, text), "{name} {text}"));
        bad.iter().for_each(|text| assert!(!format::accepts(name, text), "{name} {text}"));
    }
}

#[test]
fn prunes_and_names_unknown_fields() {
    let schema = schema(json!({
        "known": { "type": "string" },
        "list": { "type": "array", "items": { "type": "object", "properties": { "a": { "type": "string" } } } },
        "labels": { "type": "object", "additionalProperties": { "type": "object", "properties": { "a": { "type": "string" } } } },
        "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "strict": { "type": "object", "properties": { "a": { "type": "string" } } } } },
        "raw": { "type": "object", "x-kubernetes-embedded-resource": true, "properties": { "spec": { "type": "object" } } },
    }));
    let mut object = json!({
        "apiVersion": "v1", "kind": "K", "metadata": { "name": "n", "anything": 1 }, "stray": 1,
        "spec": {
            "known": "x", "foo": 1,
            "list": [{ "a": "", "bar": {} }],
            "labels": { "k": { "a": "", "b": "" } },
            "free": { "kept": { "deep": 1 }, "strict": { "a": "", "lost": 1 } },
            "raw": { "apiVersion": "v1", "kind": "P", "metadata": { "name": "x" }, "spec": { "gone": 1 }, "other": 1 },
        },
    });
    let mut unknown = schema.unknown_fields(&object);
    unknown.sort();
    let expected = [
        "spec.foo",
        "spec.free.strict.lost",
        "spec.labels.k.b",
        "spec.list[0].bar",
        "spec.raw.other",
        "spec.raw.spec.gone",
        "stray",
    ];
    assert_eq!(unknown, expected);
    schema.prune(&mut object);
    assert_eq!(schema.unknown_fields(&object), Vec::<String>::new());
    assert_eq!(
        object,
        json!({
            "apiVersion": "v1", "kind": "K", "metadata": { "name": "n", "anything": 1 },
            "spec": {
                "known": "x", "list": [{ "a": "" }], "labels": { "k": { "a": "" } },
                "free": { "kept": { "deep": 1 }, "strict": { "a": "" } },
                "raw": { "apiVersion": "v1", "kind": "P", "metadata": { "name": "x" }, "spec": {} },
            },
        })
    );
}

#[test]
fn fills_in_defaults() {
    let schema = schema(json!({
        "mode": { "type": "string", "default": "A" },
        "nested": { "type": "object", "default": {}, "properties": { "port": { "type": "integer", "default": 53 } } },
        "absent": { "type": "object", "properties": { "x": { "type": "string", "default": "never" } } },
        "list": { "type": "array", "items": { "type": "object", "properties": { "p": { "type": "integer", "default": 1 } } } },
        "labels": { "type": "object", "additionalProperties": { "type": "object", "properties": { "p": { "type": "integer", "default": 2 } } } },
        "plain": { "type": "string" },
        "maybe": { "type": "string", "nullable": true, "default": "d" },
    }));
    let mut object = json!({ "spec": { "list": [{}, { "p": 5 }], "labels": { "k": {} } } });
    schema.default(&mut object);
    assert_eq!(
        object["spec"],
        json!({
            "mode": "A", "nested": { "port": 53 }, "list": [{ "p": 1 }, { "p": 5 }], "labels": { "k": { "p": 2 } },
            "maybe": "d",
        })
    );
    let mut nulls = json!({ "spec": { "mode": null, "plain": null, "maybe": null } });
    schema.default(&mut nulls);
    assert_eq!(nulls["spec"], json!({ "mode": "A", "nested": { "port": 53 }, "maybe": null }));
}

fn ruled(spec: Value) -> Schema {
    let openapi = json!({ "type": "object", "properties": { "spec": spec } });
    Schema::compile(&openapi).unwrap_or_else(|e| panic!("{e:?}"))
}

fn rule(properties: Value, rule: Value) -> Schema {
    ruled(json!({ "type": "object", "properties": properties, "x-kubernetes-validations": [rule] }))
}

#[test]
fn runs_rules_with_their_messages() {
    let ports = json!({ "min": { "type": "integer" }, "max": { "type": "integer" },
                        "m": { "type": "object", "additionalProperties": { "type": "integer" } } });
    let cases = [
        (
            json!({ "rule": "self.min <= self.max", "message": "min must not exceed max" }),
            "spec: Invalid value: min must not exceed max",
        ),
        (json!({ "rule": "self.min <= self.max" }), "spec: Invalid value: failed rule: self.min <= self.max"),
        (
            json!({ "rule": "self.min <= self.max", "message": "m",
                 "messageExpression": "'%d is over %d'.format([self.min, self.max])" }),
            "spec: Invalid value: 5 is over 3",
        ),
        (
            json!({ "rule": "self.min <= self.max", "message": "fallback", "messageExpression": "self.m['none'] > 1 ? 'a' : 'b'" }),
            "spec: Invalid value: fallback",
        ),
        (
            json!({ "rule": "self.min <= self.max", "message": "m", "fieldPath": ".min" }),
            "spec.min: Invalid value: m",
        ),
        (
            json!({ "rule": "self.min <= self.max", "message": "m", "fieldPath": ".m['a.b']" }),
            "spec.m[a.b]: Invalid value: m",
        ),
        (
            json!({ "rule": "self.min <= self.max", "message": "m", "reason": "FieldValueForbidden" }),
            "spec: Forbidden: m",
        ),
        (
            json!({ "rule": "self.min <= self.max", "message": "m", "reason": "FieldValueRequired", "fieldPath": ".max" }),
            "spec.max: Required value: m",
        ),
        (
            json!({ "rule": "self.m['none'] == 1" }),
            r#"spec: Invalid value: "object": no such key: none evaluating rule: self.m['none'] == 1"#,
        ),
    ];
    for (source, expected) in cases {
        let schema = rule(ports.clone(), source.clone());
        assert_eq!(errors(&schema, json!({ "min": 5, "max": 3, "m": {} })), [expected], "{source}");
    }
}

#[test]
fn evaluates_what_kubernetes_evaluates() {
    let properties = json!({
        "name": { "type": "string" }, "n": { "type": "integer" }, "f": { "type": "number" },
        "list": { "type": "array", "items": { "type": "string" } },
        "at": { "type": "string", "format": "date-time" }, "for": { "type": "string", "format": "duration" },
        "namespace": { "type": "string" }, "a-b": { "type": "string" }, "a_b": { "type": "string" },
        "target": { "x-kubernetes-int-or-string": true },
        "labels": { "type": "object", "additionalProperties": { "type": "string" } },
    });
    let spec = json!({
        "name": "abc", "n": 3, "f": 2, "list": ["a", "b"], "at": "2026-01-01T00:00:00Z", "for": "1h",
        "namespace": "ns", "a-b": "dash", "a_b": "under", "target": 8080, "labels": { "x.y/z": "v" },
    });
    for source in [
        "self.name.startsWith('a') && self.name.matches('^[a-c]+$')",
        "self.n + 1 == 4",
        "self.f > 1.5",
        "self.list.all(x, x.size() == 1) && self.list.exists(x, x == 'b')",
        "self.list.map(x, x + '!') == ['a!', 'b!']",
        "self.at < timestamp('2026-01-02T00:00:00Z')",
        "self.__for__ == duration('60m')",
        "self.__namespace__ == 'ns' && self.a__dash__b == 'dash' && self.a_b == 'under'",
        "self.target == 8080 || self.target == '8080'",
        "'x.y/z' in self.labels && self.labels['x.y/z'] == 'v'",
        "self.labels.all(k, k.contains('/'))",
        "!has(self.labels.nope)",
        "self.?name.orValue('x') == 'abc'",
        "self.labels.?nope.orValue('x') == 'x'",
        "!self.labels.?nope.hasValue()",
        "self.?name.optMap(v, v + '!').orValue('') == 'abc!'",
        "!self.labels.?nope.optMap(v, v + '!').hasValue()",
        "cel.bind(s, self.n * 2, s == 6 && s < 7)",
        "cidr('10.0.0.0/8').containsIP(ip('10.1.2.3'))",
        "isIP('::1') && !isIP('x')",
        "quantity('1Gi').isGreaterThan(quantity('1M'))",
        "sets.contains(self.list, ['a'])",
        "self.list.isSorted()",
        "optional.none().orValue(1) == 1",
        "math.greatest(self.n, 2) == 3",
        "url('https://example.com:80/x').getHost() == 'example.com:80'",
    ] {
        let schema = rule(properties.clone(), json!({ "rule": source }));
        assert_eq!(errors(&schema, spec.clone()), Vec::<String>::new(), "{source}");
    }
}

#[test]
fn compares_with_the_old_object() {
    let schema = ruled(json!({ "type": "object", "properties": {
        "fixed": { "type": "string", "x-kubernetes-validations": [{ "rule": "self == oldSelf", "message": "is immutable" }] },
        "once": { "type": "string", "x-kubernetes-validations": [
            { "rule": "!oldSelf.hasValue() || oldSelf.value() == self", "message": "was set", "optionalOldSelf": true }] },
        "items": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": { "type": "object", "properties": { "name": { "type": "string" }, "n": { "type": "integer" } },
                "x-kubernetes-validations": [{ "rule": "self.n >= oldSelf.n", "message": "must not shrink" }] } },
    }}));
    let old = json!({ "spec": { "fixed": "a", "once": "x", "items": [{ "name": "a", "n": 5 }, { "name": "b", "n": 1 }] } });
    let check = |spec: Value| -> Vec<String> {
        schema.validate(&json!({ "spec": spec }), Some(&old)).iter().map(ToString::to_string).collect()
    };
    assert_eq!(check(json!({ "fixed": "b" })), [r#"spec.fixed: Invalid value: "b": is immutable"#]);
    assert_eq!(check(json!({ "fixed": "a" })), Vec::<String>::new());
    assert_eq!(check(json!({ "once": "y" })), [r#"spec.once: Invalid value: "y": was set"#]);
    assert_eq!(errors(&schema, json!({ "fixed": "new", "once": "new" })), Vec::<String>::new());
    // Items are compared by name, wherever they stand; a fresh one has nothing to compare with.
    let moved =
        json!({ "items": [{ "name": "b", "n": 2 }, { "name": "c", "n": 0 }, { "name": "a", "n": 4 }] });
    assert_eq!(check(moved), ["spec.items[2]: Invalid value: must not shrink"]);
}

#[test]
fn does_not_judge_again_what_has_not_changed() {
    let schema = rule(
        json!({ "a": { "type": "string", "maxLength": 1 }, "b": { "type": "string" } }),
        json!({ "rule": "self.b != 'bad'", "message": "b is bad" }),
    );
    let old = json!({ "spec": { "a": "too long", "b": "x" } });
    assert_eq!(schema.validate(&json!({ "spec": { "a": "too long", "b": "y" } }), Some(&old)), []);
    assert_eq!(schema.validate(&json!({ "spec": { "a": "longer still", "b": "x" } }), Some(&old)).len(), 2);
    let bad = json!({ "spec": { "b": "bad" }, "metadata": { "labels": {} } });
    let same = json!({ "spec": { "b": "bad" } });
    assert_eq!(schema.validate(&bad, Some(&same)), []);
}

#[test]
fn skips_rules_when_the_structure_is_wrong() {
    let schema = rule(json!({ "a": { "type": "integer" } }), json!({ "rule": "self.a > 1" }));
    assert_eq!(
        errors(&schema, json!({ "a": "x" })),
        [
            r#"spec.a: Invalid value: "string": spec.a in body must be of type integer: "string""#,
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; \
         correct the existing errors to complete validation",
        ]
    );
}

/// As Gateway API v1.7 writes it.
#[test]
fn a_keyword_is_a_field_with_and_without_its_escape() {
    let properties = json!({ "refs": { "type": "array", "items": { "type": "object",
        "properties": { "namespace": { "type": "string" } } } } });
    for field in ["namespace", "__namespace__"] {
        let rule_text = format!("self.refs.all(r, !has(r.{field}) || r.{field} == 'a')");
        let schema = rule(properties.clone(), json!({ "rule": rule_text, "message": "only a" }));
        assert_eq!(errors(&schema, json!({ "refs": [{}, { "namespace": "a" }] })), [""; 0], "{field}");
        let wrong = errors(&schema, json!({ "refs": [{ "namespace": "b" }] }));
        assert!(wrong.len() == 1 && wrong[0].contains("only a"), "{field}: {wrong:?}");
    }
}

#[test]
fn refuses_rules_that_do_not_compile() {
    let properties = json!({ "name": { "type": "string" }, "list": { "type": "array", "items": { "type": "object",
        "properties": { "a": { "type": "string" } } } } });
    let cases = [
        ("self.name ==", "compilation failed"),
        ("self.nome == 'x'", "undefined field 'nome'"),
        ("self.list.all(x, x.b == 'x')", "undefined field 'b'"),
        ("self.list[0].b == 'x'", "undefined field 'b'"),
        ("self.name.a == 'x'", "does not support field selection"),
        ("other == 1", "undeclared reference to 'other'"),
        ("self.name.frobnicate()", "undeclared reference to 'frobnicate'"),
        ("frobnicate(self.name)", "undeclared reference to 'frobnicate'"),
        ("", "rule is not specified"),
    ];
    for (source, expected) in cases {
        let openapi = json!({ "type": "object", "properties": properties,
            "x-kubernetes-validations": [{ "rule": source, "message": "m" }] });
        let errors = Schema::compile(&openapi).expect_err(source);
        assert_eq!(errors[0].path, "openAPIV3Schema.x-kubernetes-validations[0].rule", "{source}");
        assert!(errors[0].detail.contains(expected), "{source}: {}", errors[0].detail);
    }
    let uncorrelated = json!({ "type": "object", "properties": { "l": { "type": "array", "items": { "type": "string",
        "x-kubernetes-validations": [{ "rule": "self == oldSelf" }] } } } });
    assert!(Schema::compile(&uncorrelated).expect_err("uncorrelated")[0].detail.contains("uncorrelatable"));
    let root = json!({ "type": "object", "properties": { "spec": { "type": "object" } },
        "x-kubernetes-validations": [{ "rule": "self.metadata.name.size() < 3", "message": "name too long" }] });
    let schema = Schema::compile(&root).expect("metadata is a field of the root");
    assert_eq!(schema.validate(&json!({ "metadata": { "name": "abcd" } }), None).len(), 1);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z]{0,4}".prop_map(Value::from),
    ];
    let name = prop_oneof![
        Just("a".to_owned()),
        Just("b".to_owned()),
        Just("spec".to_owned()),
        Just("name".to_owned()),
        "[a-z]{1,3}"
    ];
    leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(name.clone(), inner, 0..6)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

fn fuzzed() -> Schema {
    let item = json!({ "type": "object", "properties": {
        "name": { "type": "string", "default": "n", "pattern": "^[a-z]*$" },
        "a": { "type": "integer", "default": 1, "maximum": 10 },
        "b": { "type": "string", "nullable": true, "format": "date-time" } },
        "x-kubernetes-validations": [{ "rule": "self.a > 0 && (!has(self.b) || self.b != null)" }, { "rule": "self == oldSelf" }] });
    Schema::compile(&json!({ "type": "object", "properties": {
        "a": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": item },
        "b": { "type": "object", "additionalProperties": item, "maxProperties": 3 },
        "spec": { "type": "object", "default": {}, "properties": {
            "a": item, "name": { "x-kubernetes-int-or-string": true },
            "b": { "x-kubernetes-preserve-unknown-fields": true, "oneOf": [{ "required": ["a"] }, { "enum": [1, "x"] }] } } },
    }})).unwrap_or_else(|e| panic!("{e:?}"))
}

proptest! {
    #[test]
    fn pruning_a_defaulted_object_is_idempotent(mut object in any_json()) {
        let schema = fuzzed();
        schema.default(&mut object);
        schema.prune(&mut object);
        let mut again = object.clone();
        schema.default(&mut again);
        schema.prune(&mut again);
        prop_assert_eq!(&again, &object);
        prop_assert_eq!(schema.unknown_fields(&object), Vec::<String>::new());
    }

    #[test]
    fn validating_never_panics(new in any_json(), old in any_json()) {
        let schema = fuzzed();
        schema.validate(&new, None);
        schema.validate(&new, Some(&old));
        prop_assert_eq!(schema.validate(&new, Some(&new)).iter().filter(|e| !e.detail.contains("oldSelf")).count(), 0);
    }

    #[test]
    fn compiling_never_panics(openapi in any_json()) {
        let _ = Schema::compile(&openapi);
    }
}
