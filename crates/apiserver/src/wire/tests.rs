//! Messages as real clients sent them, hand-made ones for the odd types, and bytes that mean nothing.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::builtin::definitions;
use table::{Message, Repeat, Table, Type};

/// Writes messages for the tests: tags, lengths and varints.
#[derive(Default, Clone)]
struct Wire(Vec<u8>);

impl Wire {
    fn varint(mut self, number: u64, value: u64) -> Self {
        self.raw(number << 3);
        self.raw(value);
        self
    }

    fn bytes(mut self, number: u64, value: impl AsRef<[u8]>) -> Self {
        let value = value.as_ref();
        self.raw(number << 3 | 2);
        self.raw(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    fn double(mut self, number: u64, value: f64) -> Self {
        self.raw(number << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn message(self, number: u64, inner: Wire) -> Self {
        self.bytes(number, inner.0)
    }

    fn raw(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn body(&self, api_version: &str, kind: &str) -> Vec<u8> {
        let types = wire().bytes(1, api_version).bytes(2, kind);
        let envelope = wire().message(1, types).bytes(2, &self.0).bytes(3, "").bytes(4, "");
        [MAGIC, &envelope.0].concat()
    }

    fn decode(&self, api_version: &str, kind: &str) -> Value {
        decode(&self.body(api_version, kind)).unwrap()
    }
}

fn wire() -> Wire {
    Wire::default()
}

/// `kubectl create deployment web --image=nginx --replicas=0 --port=8080`, as kubectl 1.32 sent it.
const DEPLOYMENT: &str = "\
    azhzAAoVCgdhcHBzL3YxEgpEZXBsb3ltZW50ErkBCh8KA3dlYhIAGgAiACoAMgA4AEIAWgoKA2FwcBIDd2ViEocBCAASDAoKCgNh\
    cHASA3dlYhptChwKABIAGgAiACoAMgA4AEIAWgoKA2FwcBIDd2ViEk0SLwoFbmdpbngSBW5naW54KgAyCwoAEAAYkD8iACoAQgBq\
    AHIAgAEAiAEAkAEAogEAGgAyAEIASgBSAFgAYABoAIIBAIoBAJoBAMIBACICCgAoADgAGgwIABAAGAAgACgAOAAaACIA";

/// `kubectl create secret generic login --from-literal=user=ann --from-literal=password=s3cret`, likewise.
const SECRET: &str = "\
    azhzAAoMCgJ2MRIGU2VjcmV0EjoKFQoFbG9naW4SABoAIgAqADIAOABCABISCghwYXNzd29yZBIGczNjcmV0EgsKBHVzZXISA2Fu\
    bhoAGgAiAA==";

#[test]
fn reads_the_deployment_that_kubectl_sends() {
    let expected = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [
                    {"name": "nginx", "image": "nginx", "ports": [{"containerPort": 8080}], "resources": {}}
                ]},
            },
        },
        "status": {},
    });
    assert_eq!(decode(&STANDARD.decode(DEPLOYMENT).unwrap()).unwrap(), expected);
}

#[test]
fn reads_the_secret_that_kubectl_sends() {
    let expected = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"},
        "data": {"user": "YW5u", "password": "czNjcmV0"},
    });
    assert_eq!(decode(&STANDARD.decode(SECRET).unwrap()).unwrap(), expected);
}

#[test]
fn unset_pointers_and_empty_values_stay_apart() {
    // minReadySeconds and paused are plain and 0; revisionHistoryLimit is a pointer to 0; replicas is not there.
    let spec = wire().message(3, wire()).varint(5, 0).varint(6, 0).varint(7, 0);
    let deployment = wire().message(2, spec).decode("apps/v1", "Deployment");
    let spec = deployment["spec"].as_object().unwrap();
    assert_eq!(spec.get("revisionHistoryLimit"), Some(&json!(0)));
    for left_out in ["replicas", "minReadySeconds", "paused", "selector"] {
        assert!(!spec.contains_key(left_out), "{left_out}");
    }
}

#[test]
fn inlined_messages_stand_among_their_holders_fields() {
    let config = wire().message(1, wire().bytes(1, "settings")).varint(3, 0o644);
    let volume = wire().bytes(1, "v").message(2, wire().message(19, config));
    let empty = wire().bytes(1, "e").message(2, wire().message(2, wire().bytes(1, "")));
    let port = wire().varint(1, 1).varint(2, 0).bytes(3, "http");
    let probe = wire().message(1, wire().message(2, wire().bytes(1, "/").message(2, port))).varint(2, 5);
    let container = wire().bytes(1, "c").message(10, probe);
    let spec = wire().message(1, volume).message(1, empty).message(2, container);
    let pod = wire().message(2, spec).decode("v1", "Pod");
    assert_eq!(
        pod["spec"]["volumes"],
        json!([{"name": "v", "configMap": {"name": "settings", "defaultMode": 0o644}}, {"name": "e", "emptyDir": {}}])
    );
    assert_eq!(
        pod["spec"]["containers"][0]["livenessProbe"],
        json!({"httpGet": {"path": "/", "port": "http"}, "initialDelaySeconds": 5})
    );
}

#[test]
fn times_are_rfc_3339() {
    let micro = wire().varint(1, 1_700_000_000).varint(2, 123_456_789);
    let spec = wire().bytes(1, "me").varint(2, 0).message(4, micro.clone());
    let metadata = wire().message(8, wire()).message(9, micro);
    let lease = wire().message(1, metadata).message(2, spec).decode("coordination.k8s.io/v1", "Lease");
    assert_eq!(lease["metadata"], json!({"deletionTimestamp": "2023-11-14T22:13:20Z"}));
    let expected = json!({"holderIdentity": "me", "leaseDurationSeconds": 0, "renewTime": "2023-11-14T22:13:20.123456Z"});
    assert_eq!(lease["spec"], expected);

    let never =
        wire().message(1, wire().message(9, wire().varint(1, i64::MAX as u64))).body("v1", "ConfigMap");
    assert_eq!(decode(&never).unwrap_err().code, 400);
}

#[test]
fn quantities_ports_and_negative_numbers() {
    let quantity = wire().bytes(1, "memory").message(2, wire().bytes(1, "1Gi"));
    let container = wire().bytes(1, "c").message(8, wire().message(1, quantity));
    let toleration = wire().varint(5, -1_i64 as u64);
    let spec = wire().message(2, container).message(22, toleration);
    let pod = wire().message(2, spec).decode("v1", "Pod");
    assert_eq!(pod["spec"]["containers"][0]["resources"], json!({"limits": {"memory": "1Gi"}}));
    assert_eq!(pod["spec"]["tolerations"], json!([{"tolerationSeconds": -1}]));

    let port = |target: Wire| wire().varint(3, 80).message(4, target);
    let unset = port(wire().varint(1, 0).varint(2, 0).bytes(3, ""));
    let number = port(wire().varint(1, 0).varint(2, 8080).bytes(3, ""));
    let service = wire().message(2, wire().message(1, unset).message(1, number)).decode("v1", "Service");
    assert_eq!(service["spec"]["ports"], json!([{"port": 80}, {"port": 80, "targetPort": 8080}]));
}

#[test]
fn schemas_of_definitions_take_their_json_form() {
    let text = || wire().bytes(5, "string");
    let json_value = |json: &str| wire().bytes(1, json);
    let property = |name: &str, schema: Wire| wire().bytes(1, name).message(2, schema);
    let list = wire().bytes(5, "array").message(24, wire().message(1, text()));
    let open = wire().bytes(5, "object").message(30, wire().varint(1, 1));
    let map = wire().bytes(5, "object").message(30, wire().varint(1, 0).message(2, text()));
    let limits = wire().double(9, 10.0).double(11, 0.5).varint(38, 1);
    let choice =
        wire().message(8, json_value("{\"a\":[1]}")).message(20, json_value("1")).message(20, wire());
    let schema = wire()
        .message(29, property("list", list))
        .message(29, property("open", open))
        .message(29, property("map", map))
        .message(29, property("limits", limits))
        .message(29, property("choice", choice));
    let version = wire().bytes(1, "v1").varint(2, 1).varint(3, 0).message(4, wire().message(1, schema));
    let crd = wire()
        .message(2, wire().message(7, version))
        .decode("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let version = &crd["spec"]["versions"][0];
    assert_eq!(version["storage"], false);
    assert_eq!(
        version["schema"]["openAPIV3Schema"]["properties"],
        json!({
            "list": {"type": "array", "items": {"type": "string"}},
            "open": {"type": "object", "additionalProperties": true},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "limits": {"maximum": 10, "minimum": 0.5, "x-kubernetes-preserve-unknown-fields": true},
            "choice": {"default": {"a": [1]}, "enum": [1, null]},
        })
    );
}

#[test]
fn lists_that_are_types_and_packed_numbers() {
    let groups = wire().bytes(1, "scopes").message(2, wire().bytes(1, "a").bytes(1, "b"));
    let spec = wire().bytes(3, "ann").message(5, groups);
    let review = wire().message(2, spec).decode("authorization.k8s.io/v1", "SubjectAccessReview");
    assert_eq!(review["spec"], json!({"user": "ann", "extra": {"scopes": ["a", "b"]}}));

    let context = wire().varint(4, 7).bytes(4, [8, 0x80, 1]);
    let pod = wire().message(2, wire().message(14, context)).decode("v1", "Pod");
    assert_eq!(pod["spec"]["securityContext"], json!({"supplementalGroups": [7, 8, 128]}));
}

#[test]
fn options_come_in_any_group() {
    let options = wire().varint(1, 0).bytes(4, "Foreground");
    for version in ["v1", "apps/v1", "meta.k8s.io/v1", "causeway.dev/v1alpha1"] {
        let decoded = options.decode(version, "DeleteOptions");
        assert_eq!(decoded["gracePeriodSeconds"], 0, "{version}");
        assert_eq!(decoded["propagationPolicy"], "Foreground", "{version}");
    }
}

#[test]
fn unknown_fields_are_skipped_and_unknown_kinds_are_told_to_use_json() {
    let map = wire().varint(900, 1).double(901, 1.0).bytes(902, "x").message(1, wire().bytes(1, "m"));
    assert_eq!(map.decode("v1", "ConfigMap")["metadata"], json!({"name": "m"}));
    for (version, kind) in [("v1", "Nothing"), ("causeway.dev/v1alpha1", "Infra"), ("example.com/v1", "Pod")]
    {
        let error = decode(&wire().body(version, kind)).unwrap_err();
        assert_eq!(error.code, 415, "{version} {kind}");
        assert!(error.message.contains("application/json"), "{}", error.message);
    }
}

#[test]
fn malformed_bodies_are_bad_requests_that_name_the_field() {
    let in_name = |bytes: &[u8]| wire().message(1, wire().bytes(1, bytes));
    let cases = [
        (b"{}".to_vec(), "prefix"),
        (MAGIC.to_vec(), "missing"),
        (wire().body("v1", ""), "missing"),
        ([MAGIC, &[0x0a, 0x7f]].concat(), "the envelope: a value goes past"),
        (in_name(&[0xff]).body("v1", "Pod"), "meta.v1.ObjectMeta.name: text is not UTF-8"),
        (wire().varint(1, 1).body("v1", "Pod"), "core.v1.Pod.metadata: the wire type"),
        (Wire(vec![0x0b]).body("v1", "Pod"), "core.v1.Pod: wire type 3"),
        (Wire(vec![0x02, 0]).body("v1", "Pod"), "core.v1.Pod: a field has the number zero"),
        (Wire(vec![0xff; 11]).body("v1", "Pod"), "core.v1.Pod: a varint"),
        (
            wire().message(2, wire().bytes(1, "{")).body("apps/v1", "ControllerRevision"),
            "RawExtension.raw: embedded",
        ),
    ];
    for (bytes, words) in cases {
        let error = decode(&bytes).unwrap_err();
        assert_eq!(error.code, 400, "{}", error.message);
        assert!(error.message.contains(words), "{} does not say {words:?}", error.message);
    }
}

#[test]
fn depth_and_size_are_bounded() {
    // JSONSchemaProps.not holds a JSONSchemaProps.
    let mut schema = wire();
    for _ in 0..10_000 {
        schema = wire().message(28, schema);
    }
    let version = wire().message(4, wire().message(1, schema));
    let deep = wire()
        .message(2, wire().message(7, version))
        .body("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    assert!(decode(&deep).unwrap_err().message.contains("deep"));

    let mut containers = wire();
    for _ in 0..=VALUES {
        containers = containers.message(2, wire());
    }
    let wide = wire().message(2, containers).body("v1", "Pod");
    assert!(decode(&wide).unwrap_err().message.contains("values"));
}

/// The name of a message in OpenAPI; `None` for those whose JSON is not an object.
fn definition(message: &Message) -> Option<String> {
    let (package, name) = message.name.rsplit_once('.')?;
    let home = match package {
        _ if message.shape != shape::Shape::Object => return None,
        "meta.v1" => "io.k8s.apimachinery.pkg.apis.meta.v1".to_owned(),
        "apiextensions.v1" => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1".to_owned(),
        _ => format!("io.k8s.api.{package}"),
    };
    Some(format!("{home}.{name}"))
}

/// A message's JSON names with the OpenAPI type of each.
fn properties(message: &Message) -> Vec<(&'static str, &'static str)> {
    let table = Table::get();
    let mut all = Vec::new();
    for field in &message.fields {
        match (field.repeat, field.ty) {
            (Repeat::One, Type::Message(index)) if field.inline => {
                all.extend(properties(table.message(index)));
            }
            (Repeat::List, _) => all.push((field.name, "array")),
            (Repeat::Map, _) => all.push((field.name, "object")),
            (Repeat::One, Type::Text | Type::Bytes) => all.push((field.name, "string")),
            (Repeat::One, Type::Bool) => all.push((field.name, "boolean")),
            (Repeat::One, Type::Int) => all.push((field.name, "integer")),
            (Repeat::One, Type::Double) => all.push((field.name, "number")),
            (Repeat::One, Type::Message(_) | Type::Json) => all.push((field.name, "")),
        }
    }
    all
}

#[test]
fn the_table_and_the_schemas_that_are_served_agree() {
    let served = definitions::definitions();
    let mut compared = 0;
    for message in Table::get().messages() {
        assert!(message.fields.len() <= 64, "{}: `seen` has a bit for each field", message.name);
        assert!(message.fields.is_sorted_by_key(|field| field.number), "{}", message.name);
        let Some(schema) = definition(message).and_then(|name| served.get(&name)) else {
            continue;
        };
        compared += 1;
        let empty = Map::new();
        let schema = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let mut wire_names = Vec::new();
        for (name, ty) in properties(message) {
            wire_names.push(name);
            let property =
                schema.get(name).unwrap_or_else(|| panic!("{}.{name} is not served", message.name));
            if let Some(served_type) = property.get("type").filter(|_| !ty.is_empty()) {
                assert_eq!(served_type, ty, "{}.{name}", message.name);
            }
        }
        // A kind's type stands in the envelope.
        let on_wire = |name: &&String| !["apiVersion", "kind"].contains(&name.as_str());
        for name in schema.keys().filter(on_wire) {
            assert!(wire_names.contains(&name.as_str()), "{}.{name} is not in the table", message.name);
        }
    }
    assert!(compared > 250, "only {compared} messages have a schema");
}

#[test]
fn every_built_in_kind_has_a_message() {
    for (group, version, kind) in [
        ("", "v1", "Pod"),
        ("", "v1", "Binding"),
        ("apps", "v1", "StatefulSet"),
        ("autoscaling", "v1", "Scale"),
        ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding"),
    ] {
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        assert!(Table::get().top(&api_version, kind).is_some(), "{api_version} {kind}");
    }
    for resource in crate::builtin::resources() {
        assert!(Table::get().top(&resource.api_version(), &resource.kind).is_some(), "{}", resource.kind);
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        let _ = decode(&bytes);
        let _ = decode(&[MAGIC, &bytes].concat());
    }

    #[test]
    fn arbitrary_objects_are_read_or_refused(
        bytes in proptest::collection::vec(prop_oneof![any::<u8>(), 0_u8..32], 0..256),
        index in 0_usize..5,
    ) {
        let kinds = ["Pod", "Service", "Event", "Node", "Secret"];
        if let Err(error) = decode(&Wire(bytes).body("v1", kinds[index])) {
            prop_assert_eq!(error.code, 400);
        }
    }

    #[test]
    fn a_damaged_deployment_is_read_or_refused(at in 0_usize..400, byte in any::<u8>(), length in 0_usize..400) {
        let mut bytes = STANDARD.decode(DEPLOYMENT).unwrap();
        bytes.truncate(length);
        if let Some(damaged) = bytes.get_mut(at) {
            *damaged = byte;
        }
        if let Err(error) = decode(&bytes) {
            prop_assert!(matches!(error.code, 400 | 415));
        }
    }
}
