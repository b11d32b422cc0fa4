//! Every sample is accepted, every bad spec is refused with words that help. The definitions are those of `api`, the
//! judge is the server's own schema engine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::error::FieldError;
use crate::schema::Schema;

/// One line of `bad.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bad {
    name: String,
    sample: String,
    #[serde(default)]
    set: BTreeMap<String, Value>,
    #[serde(default)]
    remove: Vec<String>,
    /// The sample is the stored object, the changed one the update.
    #[serde(default)]
    update: bool,
    path: String,
    says: String,
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn schemas() -> BTreeMap<String, Schema> {
    let definitions = crate::bootstrap::definitions();
    definitions
        .iter()
        .map(|crd| (crd["spec"]["names"]["kind"].as_str().unwrap().to_owned(), compile(crd)))
        .collect()
}

/// Samples are of the first version.
fn compile(crd: &Value) -> Schema {
    let name = &crd["metadata"]["name"];
    Schema::compile(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
        .unwrap_or_else(|errors| panic!("{name}: {errors:#?}"))
}

/// The samples' objects by file name, core kinds left out.
fn samples() -> BTreeMap<String, Vec<Value>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(repository().join("deploy/samples")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let custom = documents.into_iter().filter(|d| {
            let version = d["apiVersion"].as_str().unwrap_or_default();
            ["causeway.dev/", "k8s.cni.cncf.io/", "gateway.networking.k8s.io/"]
                .iter()
                .any(|group| version.starts_with(group))
        });
        found.insert(path.file_stem().unwrap().to_string_lossy().into_owned(), custom.collect());
    }
    found
}

/// What a server does to an object before it looks at it.
fn admit(schema: &Schema, object: &Value) -> Value {
    let mut object = object.clone();
    schema.prune(&mut object);
    schema.default(&mut object);
    object
}

fn judge(schemas: &BTreeMap<String, Schema>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let schema = &schemas[object["kind"].as_str().unwrap()];
    let old = old.map(|old| admit(schema, old));
    schema.validate(&admit(schema, object), old.as_ref())
}

#[test]
fn accepts_every_sample() {
    let (schemas, samples) = (schemas(), samples());
    assert!(samples.len() >= 18, "{} samples", samples.len());
    let mut kinds = std::collections::BTreeSet::new();
    for (file, objects) in &samples {
        assert!(!objects.is_empty(), "{file} has no object of ours");
        for object in objects {
            let kind = object["kind"].as_str().unwrap();
            let schema = schemas.get(kind).unwrap_or_else(|| panic!("{file}: unknown kind {kind}"));
            assert_eq!(schema.unknown_fields(object), Vec::<String>::new(), "{file}");
            assert_eq!(judge(&schemas, object, None), [], "{file}");
            assert_eq!(judge(&schemas, object, Some(object)), [], "{file}, updated with itself");
            kinds.insert(kind.to_owned());
        }
    }
    for crd in causeway_api::crds() {
        let kind = crd.spec.names.kind;
        // Nobody but the operator writes one.
        assert!(
            matches!(kind.as_str(), "Supply" | "AddressClaim" | "GatewayPlan") || kinds.contains(&kind),
            "no sample of {kind}"
        );
    }
}

#[test]
fn refuses_every_bad_spec_and_says_why() {
    let (schemas, samples) = (schemas(), samples());
    let cases: Vec<Bad> = serde_saphyr::from_str(include_str!("bad.yaml")).unwrap();
    assert!(cases.len() >= 70, "{} cases", cases.len());
    let mut failures = Vec::new();
    for case in &cases {
        let sample = samples[&case.sample].last().unwrap();
        let mut object = sample.clone();
        case.set.iter().for_each(|(pointer, value)| set(&mut object, pointer, value.clone()));
        case.remove.iter().for_each(|pointer| remove(&mut object, pointer));
        let errors = judge(&schemas, &object, case.update.then_some(sample));
        // A rule that could not be evaluated is a fault of ours, whatever else was found.
        let sound = errors.iter().all(|e| !e.detail.contains("evaluating rule"));
        let hit = sound && errors.iter().any(|e| e.path == case.path && e.body().contains(&case.says));
        if !hit {
            let got: Vec<_> = errors.iter().map(ToString::to_string).collect();
            failures.push(format!("{}: wanted {}: …{}…\n  got {got:#?}", case.name, case.path, case.says));
        }
    }
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

/// The ordering of addresses is worked out in CEL bit by bit; it must be the one that everybody knows.
#[test]
fn orders_addresses_as_numbers() {
    let families: [(&str, &[&str]); 2] = [
        (
            "0.0.0.0/0",
            &[
                "0.0.0.1",
                "9.255.255.255",
                "10.0.0.0",
                "10.0.0.9",
                "10.0.0.10",
                "127.255.255.255",
                "128.0.0.0",
                "255.255.255.255",
            ],
        ),
        (
            "::/0",
            &[
                "::1",
                "::ffff",
                "::1:0",
                "fd00::9",
                "fd00::a",
                "fd00::10",
                "fd00:0:0:1::",
                "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            ],
        ),
    ];
    let schema = &schemas()["DHCPServer"];
    for (cidr, addresses) in families {
        for (i, start) in addresses.iter().enumerate() {
            for (j, end) in addresses.iter().enumerate() {
                let spec = json!({
                    "networkConfig": { "cidr": cidr, "gateway": addresses[3], "serverIP": addresses[4] },
                    "leaseConfig": { "rangeStart": start, "rangeEnd": end, "leaseTime": "1h" },
                });
                let object =
                    json!({ "apiVersion": "causeway.dev/v1alpha1", "kind": "DHCPServer", "spec": spec });
                let errors = schema.validate(&object, None);
                let blamed = |path: &str| errors.iter().any(|e| e.path == path);
                assert_eq!(blamed("spec.leaseConfig.rangeEnd"), i > j, "{start} to {end}");
                if i <= j {
                    assert_eq!(
                        blamed("spec.networkConfig.gateway"),
                        (i..=j).contains(&3),
                        "{start} to {end}"
                    );
                    assert_eq!(
                        blamed("spec.networkConfig.serverIP"),
                        (i..=j).contains(&4),
                        "{start} to {end}"
                    );
                }
            }
        }
    }
}

#[test]
fn refuses_lists_without_end() {
    let tunnels: Vec<Value> = (0..10_000)
        .map(|n| json!({ "name": format!("t{n}"), "serverServiceName": "a", "clientServiceName": format!("b{n}") }))
        .collect();
    let object = json!({
        "apiVersion": "causeway.dev/v1alpha1",
        "kind": "ContainerNetworkTunnelProxy",
        "spec": { "containerNetworkName": "net", "tunnels": tunnels },
    });
    let errors = judge(&schemas(), &object, None);
    let text: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert!(
        text.iter().any(|t| t.contains("spec.tunnels: Too many: 10000: must have at most 1024 items")),
        "{text:#?}"
    );
}

/// Writes at a JSON pointer whose parent exists, or is made as an object.
fn set(object: &mut Value, pointer: &str, value: Value) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = object.pointer_mut(parent).unwrap_or_else(|| panic!("no parent of {pointer}"));
    match parent {
        Value::Array(items) => items[key.parse::<usize>().unwrap()] = value,
        Value::Object(map) => drop(map.insert(key.to_owned(), value)),
        other => {
            *other = Value::Object(Map::from_iter([(key.to_owned(), value)]));
        }
    }
}

fn remove(object: &mut Value, pointer: &str) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let map = object.pointer_mut(parent).and_then(Value::as_object_mut).unwrap();
    assert!(map.remove(key).is_some(), "{pointer} is not in the sample");
}
