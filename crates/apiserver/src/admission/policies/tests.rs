use std::sync::Arc;

use causeway_testkit::eventually;
use http::Request;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::server::{Server, Storage};

/// A server, and plain requests to it as its administrator or somebody else.
struct World {
    server: Arc<Server>,
    client: kube::Client,
}

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

impl World {
    async fn new() -> Self {
        let server = Server::start(Storage::Memory, CancellationToken::new()).await.unwrap();
        Self { client: server.client(), server }
    }

    async fn send(&self, method: &str, uri: &str, body: &Value) -> Value {
        let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header("content-type", media)
            .body(if body.is_null() { Vec::new() } else { body.to_string().into_bytes() })
            .unwrap();
        self.client.request::<Value>(request).await.unwrap_or_else(|error| match error {
            kube::Error::Api(status) => json!({"code": status.code, "message": status.message}),
            other => panic!("{other}"),
        })
    }

    async fn create(&self, uri: &str, body: Value) -> Value {
        let made = self.send("POST", uri, &body).await;
        assert!(made["metadata"]["uid"].is_string(), "{made}");
        made
    }

    /// A policy in force.
    async fn policy(&self, name: &str, spec: Value, binding: Value) {
        self.create(POLICIES, json!({"metadata": {"name": name}, "spec": spec})).await;
        let mut spec = json!({"policyName": name, "validationActions": ["Deny"]});
        json_patch::merge(&mut spec, &binding);
        self.create(BINDINGS, json!({"metadata": {"name": name}, "spec": spec})).await;
    }

    async fn refused(&self, method: &str, uri: &str, body: Value) -> String {
        let answer = self.send(method, uri, &body).await;
        assert!(matches!(answer["code"].as_i64(), Some(403 | 413 | 422)), "{answer}");
        answer["message"].as_str().unwrap().to_owned()
    }
}

fn rules(group: &str, resource: &str, operations: &[&str]) -> Value {
    json!({"resourceRules": [
        {"apiGroups": [group], "apiVersions": ["*"], "operations": operations, "resources": [resource]},
    ]})
}

fn map(name: &str, data: Value) -> Value {
    json!({"metadata": {"name": name}, "data": data})
}

#[tokio::test]
async fn a_policy_holds_from_its_binding_to_its_end() {
    let world = World::new().await;
    let spec = json!({
        "matchConstraints": rules("", "configmaps", &["CREATE", "UPDATE"]),
        "validations": [{"expression": "object.data.size() < 2", "message": "too much"}],
    });
    let two = json!({"a": "1", "b": "2"});
    world.create(POLICIES, json!({"metadata": {"name": "few"}, "spec": spec})).await;
    world.create(MAPS, map("before", two.clone())).await;
    let binding =
        json!({"metadata": {"name": "few"}, "spec": {"policyName": "few", "validationActions": ["Deny"]}});
    world.create(BINDINGS, binding).await;
    let message = "configmaps \"x\" is forbidden: ValidatingAdmissionPolicy 'few' with binding 'few' denied request: too much";
    assert_eq!(world.refused("POST", MAPS, map("x", two.clone())).await, message);
    assert!(world.send("GET", &format!("{MAPS}/x"), &Value::Null).await["code"] == 404);
    world.create(MAPS, map("y", json!({"a": "1"}))).await;
    world.refused("PATCH", &format!("{MAPS}/y"), json!({"data": {"b": "2"}})).await;
    world.send("DELETE", &format!("{BINDINGS}/few"), &Value::Null).await;
    world.create(MAPS, map("x", two)).await;
}

#[tokio::test]
async fn a_route_keeps_to_the_names_its_namespace_holds() {
    let world = World::new().await;
    let crd = json!({
        "metadata": {"name": "grants.example.dev"},
        "spec": {
            "group": "example.dev", "scope": "Namespaced",
            "names": {"plural": "grants", "singular": "grant", "kind": "Grant", "listKind": "GrantList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    });
    let spec = json!({
        "paramKind": {"apiVersion": "example.dev/v1", "kind": "Grant"},
        "matchConstraints": rules("", "configmaps", &["CREATE", "UPDATE"]),
        "matchConditions": [
            {"name": "not-going-away", "expression": "!has(object.metadata.deletionTimestamp)"},
            {"name": "changed", "expression": "oldObject == null || object.data != oldObject.data"},
        ],
        "variables": [
            {"name": "held", "expression": "has(params.spec.hostnames) ? params.spec.hostnames : []"},
            {"name": "asked", "expression": "has(object.data) ? object.data.map(h, h).sort() : []"},
            {"name": "refused", "expression": "variables.asked.filter(h, !(h in variables.held) && \
                !variables.held.exists(g, g.startsWith('*.') && h.endsWith(g.substring(1))))"},
        ],
        "validations": [{
            "expression": "variables.refused.size() == 0", "reason": "Forbidden",
            "messageExpression": "'namespace ' + object.metadata.namespace + ' does not hold ' + variables.refused.join(', ')",
        }],
    });
    let denied = "ValidatingAdmissionPolicy 'grants' with binding 'grants' denied request: ";
    let binding = json!({"paramRef": {"selector": {}, "parameterNotFoundAction": "Deny"}});
    world.policy("grants", spec, binding).await;
    let route = |names: &[&str]| {
        let data: Value = names
            .iter()
            .map(|name| ((*name).to_owned(), json!("x")))
            .collect::<serde_json::Map<_, _>>()
            .into();
        map("route", data)
    };
    let own = "/apis/example.dev/v1/namespaces/default/grants";

    let said = world.refused("POST", MAPS, route(&["a.example"])).await;
    assert!(said.ends_with("failed to configure policy: failed to find resource referenced by paramKind: 'example.dev/v1, Kind=Grant'"), "{said}");
    world.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).await;
    let said = world.refused("POST", MAPS, route(&["a.example"])).await;
    assert!(said.ends_with(&format!("{denied}failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction")), "{said}");

    let grant = json!({"apiVersion": "example.dev/v1", "kind": "Grant", "metadata": {"name": "own"},
        "spec": {"hostnames": ["a.example", "*.b.example"]}});
    world.create(own, grant).await;
    // Another namespace's grant is no help.
    world.create("/api/v1/namespaces", json!({"metadata": {"name": "other"}})).await;
    let other = json!({"apiVersion": "example.dev/v1", "kind": "Grant", "metadata": {"name": "theirs"}, "spec": {"hostnames": ["c.example"]}});
    world.create("/apis/example.dev/v1/namespaces/other/grants", other).await;
    let said = world.refused("POST", MAPS, route(&["a.example", "c.example", "d.example"])).await;
    assert!(
        said.ends_with(&format!("{denied}namespace default does not hold c.example, d.example")),
        "{said}"
    );
    world.create(MAPS, route(&["a.example", "x.b.example"])).await;
    let kept = format!("{MAPS}/route");
    world.refused("PATCH", &kept, json!({"data": {"c.example": "x"}})).await;

    // What it no longer holds stays, can be labelled, and can go.
    world.send("PATCH", &format!("{own}/own"), &json!({"spec": {"hostnames": []}})).await;
    let labelled = world.send("PATCH", &kept, &json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(labelled["metadata"]["labels"]["a"], "b", "{labelled}");
    world.refused("PATCH", &kept, json!({"data": {"y.b.example": "x"}})).await;
    let gone = world.send("DELETE", &kept, &Value::Null).await;
    assert_eq!(gone["status"], "Success", "{gone}");

    // Each param is judged by on its own.
    let narrow = json!({"apiVersion": "example.dev/v1", "kind": "Grant", "metadata": {"name": "second"}, "spec": {"hostnames": ["a.example"]}});
    world.create(own, narrow).await;
    world.refused("POST", MAPS, route(&["a.example"])).await;
}

#[tokio::test]
async fn deletes_scales_and_statuses_are_judged() {
    let world = World::new().await;
    world
        .policy(
            "kept",
            json!({
                "matchConstraints": rules("", "configmaps", &["DELETE"]),
                "validations": [{"expression": "object == null && !('keep' in oldObject.data)", "message": "is kept"}],
            }),
            json!({}),
        )
        .await;
    world.create(MAPS, map("a", json!({"keep": "x"}))).await;
    world.create(MAPS, map("b", json!({"c": "x"}))).await;
    assert!(
        world
            .refused("DELETE", &format!("{MAPS}/a"), Value::Null)
            .await
            .starts_with("configmaps \"a\" is forbidden")
    );
    assert!(
        world.refused("DELETE", MAPS, Value::Null).await.starts_with("configmaps \"Unknown\" is forbidden")
    );
    assert_eq!(world.send("GET", &format!("{MAPS}/a"), &Value::Null).await["metadata"]["name"], "a");

    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    world
        .policy(
            "small",
            json!({
                "matchConstraints": rules("apps", "deployments/scale", &["UPDATE"]),
                "validations": [{
                    "expression": "object.spec.replicas < 5",
                    "messageExpression": "request.kind.kind + ' ' + request.subResource + ' of ' + request.requestResource.resource",
                }],
            }),
            json!({}),
        )
        .await;
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}});
    world.create(deployments, deployment).await;
    let scale = json!({"spec": {"replicas": 7}});
    let said = world.refused("PATCH", &format!("{deployments}/d/scale"), scale.clone()).await;
    assert!(said.ends_with("denied request: Scale scale of deployments"), "{said}");
    assert_eq!(world.send("PATCH", &format!("{deployments}/d"), &scale).await["spec"]["replicas"], 7);
}

#[tokio::test]
async fn whoever_writes_a_policy_can_read_its_params() {
    let world = World::new().await;
    let granted =
        json!([{"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"]}]);
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    world
        .create(&format!("{rbac}/clusterroles"), json!({"metadata": {"name": "author"}, "rules": granted}))
        .await;
    let subject = json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "eve"});
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "author"});
    let bound = json!({"metadata": {"name": "author"}, "roleRef": role, "subjects": [subject]});
    world.create(&format!("{rbac}/clusterrolebindings"), bound).await;
    let eve = World {
        client: world.server.client_as(crate::User::new("eve", &["system:authenticated"])),
        server: world.server.clone(),
    };
    let policy = |kind: Value| {
        json!({"metadata": {"name": "p"}, "spec": {"paramKind": kind,
            "matchConstraints": rules("", "configmaps", &["CREATE"]), "validations": [{"expression": "true"}]}})
    };
    let said = eve.refused("POST", POLICIES, policy(json!({"apiVersion": "v1", "kind": "Secret"}))).await;
    assert!(said.contains("spec.paramKind: Forbidden: user &{eve  [system:authenticated] map[]} must have \"get\" permission on all objects of the referenced paramKind (kind=Secret, apiVersion=v1)"), "{said}");
    world.create(POLICIES, policy(json!({"apiVersion": "v1", "kind": "Secret"}))).await;
    let binding = json!({"metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"],
        "paramRef": {"name": "s", "namespace": "default", "parameterNotFoundAction": "Deny"}}});
    let said = eve.refused("POST", BINDINGS, binding).await;
    assert!(said.contains("spec.paramRef: Forbidden: user &{eve"), "{said}");
}

/// Policies about some resources cost the others nothing: not even what the request would look like is made.
#[tokio::test]
async fn a_request_that_no_policy_is_about_is_not_looked_at() {
    let world = World::new().await;
    world
        .policy(
            "maps",
            json!({"matchConstraints": rules("", "configmaps", &["*"]), "validations": [{"expression": "false"}]}),
            json!({}),
        )
        .await;
    let mut warnings = Vec::new();
    let unasked = || -> super::Attempt<'static> { panic!("nobody asks for it") };
    world.server.check_policies("secrets", &mut warnings, unasked).unwrap();
    // One about everything is about the named ones too.
    let everything = json!({"matchConstraints": rules("*", "*", &["CREATE"]), "validations": [{"expression": "false", "message": "no"}]});
    world.policy("all", everything, json!({})).await;
    let secrets = "/api/v1/namespaces/default/secrets";
    assert!(world.refused("POST", secrets, json!({"metadata": {"name": "x"}})).await.contains("'all'"));
    assert!(world.refused("POST", MAPS, map("x", json!({}))).await.contains("'all'"));
    // Nobody is locked out.
    world
        .create(
            BINDINGS,
            json!({"metadata": {"name": "more"}, "spec": {"policyName": "x", "validationActions": ["Warn"]}}),
        )
        .await;
    world.send("DELETE", &format!("{POLICIES}/all"), &Value::Null).await;
    world.create(secrets, json!({"metadata": {"name": "x"}})).await;
}

#[tokio::test]
async fn policies_are_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..2 {
        let shutdown = CancellationToken::new();
        // The one before gives up its files when its last client has gone.
        let server = eventually("the directory is free", async || {
            Server::start(Storage::Directory(directory.path()), shutdown.clone())
                .await
                .map_err(|e| e.to_string())
        })
        .await;
        let world = World { client: server.client(), server };
        if round == 0 {
            let spec = json!({"matchConstraints": rules("", "configmaps", &["CREATE"]), "validations": [{"expression": "false"}]});
            world.policy("never", spec, json!({})).await;
        }
        world.refused("POST", MAPS, map("x", json!({}))).await;
        shutdown.cancel();
        world.server.stopped().await;
    }
}
