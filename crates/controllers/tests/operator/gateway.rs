//! Gateways: what the operator makes of them, and what it says. The pods are played by the test.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use causeway_api::{GatewayPlan, Supply, TrafficPolicy};
use causeway_testkit::eventually;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Pod, Secret, Service, ServiceAccount},
    rbac::v1::Role,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};
use kube::{
    Api, ResourceExt,
    api::{
        ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
        PostParams,
    },
};
use serde_json::{Value, json};

use crate::cluster::Cluster;

const GROUP: &str = "gateway.networking.k8s.io";

fn api(cluster: &Cluster, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1", kind));
    if kind == "GatewayClass" {
        return Api::all_with(
            cluster.client.clone(),
            &ApiResource { plural: "gatewayclasses".into(), ..resource },
        );
    }
    Api::namespaced_with(cluster.client.clone(), "default", &resource)
}

async fn create(cluster: &Cluster, kind: &str, name: &str, spec: Value) {
    let object = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": {"name": name}, "spec": spec,
    });
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    api(cluster, kind).create(&PostParams::default(), &object).await.unwrap();
}

async fn gateway(cluster: &Cluster, name: &str, listeners: Value) {
    create(cluster, "Gateway", name, json!({"gatewayClassName": "causeway", "listeners": listeners})).await;
}

fn http(port: u16) -> Value {
    json!([{"name": "http", "port": port, "protocol": "HTTP"}])
}

async fn route(cluster: &Cluster, name: &str, gateway: &str, service: &str) {
    let spec = json!({
        "parentRefs": [{"name": gateway}], "rules": [{"backendRefs": [{"name": service, "port": 80}]}],
    });
    create(cluster, "HTTPRoute", name, spec).await;
}

async fn service(cluster: &Cluster, name: &str) {
    let service = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    let service: Service = serde_json::from_value(service).unwrap();
    cluster.api::<Service>().create(&PostParams::default(), &service).await.unwrap();
}

/// A condition of an object: status and reason. `at` is a pointer to the object of the status that has it.
async fn condition(
    cluster: &Cluster,
    kind: &str,
    name: &str,
    at: &str,
    condition: &str,
) -> Option<(String, String)> {
    let object = api(cluster, kind).get_opt(name).await.unwrap()?;
    let all = object.data.pointer(&format!("/status{at}/conditions"))?.as_array()?.clone();
    let found = all.into_iter().find(|found| found["type"] == condition)?;
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    Some((text("status"), text("reason")))
}

async fn says(cluster: &Cluster, kind: &str, name: &str, at: &str, wanted: (&str, &str, &str)) {
    let (type_, status, reason) = wanted;
    eventually(&format!("{kind} {name} {at}: {type_} {status} {reason}"), || async {
        condition(cluster, kind, name, at, type_).await == Some((status.to_owned(), reason.to_owned()))
    })
    .await;
}

/// Says what the only pod of a Gateway would say once it runs its newest plan.
async fn serve(cluster: &Cluster, plan: &str) {
    let api = cluster.api::<GatewayPlan>();
    let pod = format!("{plan}-pod");
    if cluster.api::<Pod>().get_opt(&pod).await.unwrap().is_none() {
        let labels = json!({
            "app": "gateway", "causeway.dev/owner-name": plan, "causeway.dev/owner-kind": "Gateway",
            "app.kubernetes.io/managed-by": "causeway",
        });
        let object: Pod = serde_json::from_value(json!({
            "metadata": {"name": pod, "labels": labels},
            "spec": {"containers": [{"name": "gateway", "image": "x"}]},
        }))
        .unwrap();
        cluster.api::<Pod>().create(&PostParams::default(), &object).await.unwrap();
    }
    let found = api.get(plan).await.unwrap();
    let entry = json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "GatewayPlan", "metadata": {"name": plan},
        "status": {"replicas": [{
            "name": pod, "serving": true, "gatewayGeneration": found.spec.gateway_generation,
            "runningGeneration": found.metadata.generation,
        }]},
    });
    let params = PatchParams::apply(&format!("causeway-gateway-{pod}")).force();
    api.patch_status(plan, &params, &Patch::Apply(&entry)).await.unwrap();
}

#[tokio::test]
async fn a_gateway_becomes_pods_a_service_and_a_plan_and_is_programmed_when_they_serve() {
    let cluster = Cluster::start().await;
    let operator = cluster.whole();
    says(&cluster, "GatewayClass", "causeway", "", ("Accepted", "True", "Accepted")).await;
    service(&cluster, "shop").await;
    gateway(&cluster, "web", http(8080)).await;
    route(&cluster, "shop", "web", "shop").await;
    says(&cluster, "Gateway", "web", "", ("Accepted", "True", "Accepted")).await;
    says(&cluster, "HTTPRoute", "shop", "/parents/0", ("Accepted", "True", "Accepted")).await;
    let plan = eventually("the plan is there", || async {
        let plan = cluster.api::<GatewayPlan>().get_opt("web-causeway").await.unwrap()?;
        (!plan.spec.parts.is_empty()).then_some(plan)
    })
    .await;
    for part in &plan.spec.parts {
        let supply = cluster.api::<Supply>().get(&format!("web-causeway.{part}")).await.unwrap();
        assert_eq!(supply.owner_references()[0].kind, "Gateway");
    }
    let deployment = eventually("the Deployment is there", || async {
        cluster.api::<Deployment>().get_opt("web-causeway").await.unwrap()
    })
    .await;
    assert!(cluster.exists::<ServiceAccount>("web-causeway").await);
    let session_key =
        async || cluster.api::<Secret>().get("web-causeway-session").await.unwrap().data.unwrap();
    let key = session_key().await;
    assert_eq!(key["key"].0.len(), 32);
    let role = cluster.api::<Role>().get("web-causeway").await.unwrap();
    assert!(!serde_json::to_string(&role.rules).unwrap().contains("secrets"), "it has no certificate");
    let made = cluster.api::<Service>().get("web-causeway").await.unwrap();
    let address = made.spec.unwrap().cluster_ip.unwrap();

    // Not before a pod says that it serves.
    says(&cluster, "Gateway", "web", "", ("Programmed", "False", "Pending")).await;
    serve(&cluster, "web-causeway").await;
    says(&cluster, "Gateway", "web", "", ("Programmed", "True", "Programmed")).await;
    says(&cluster, "Gateway", "web", "/listeners/0", ("Programmed", "True", "Programmed")).await;
    let object = api(&cluster, "Gateway").get("web").await.unwrap();
    assert_eq!(object.data["status"]["addresses"], json!([{"type": "IPAddress", "value": address}]));
    assert_eq!(object.data["status"]["listeners"][0]["attachedRoutes"], 1);

    // An edit of listeners changes the Service and the plan, and no pod.
    let edit = json!({"spec": {"listeners": [
        {"name": "http", "port": 8080, "protocol": "HTTP"}, {"name": "more", "port": 8081, "protocol": "HTTP"},
    ]}});
    api(&cluster, "Gateway").patch("web", &PatchParams::default(), &Patch::Merge(&edit)).await.unwrap();
    eventually("the Service has the port", || async {
        let ports = cluster.api::<Service>().get("web-causeway").await.unwrap().spec.unwrap().ports.unwrap();
        ports.len() == 2
    })
    .await;
    eventually("the plan is another", || async {
        cluster.api::<GatewayPlan>().get("web-causeway").await.unwrap().spec != plan.spec
    })
    .await;
    let after = cluster.api::<Deployment>().get("web-causeway").await.unwrap();
    assert_eq!(after.metadata.generation, deployment.metadata.generation);
    assert_eq!(session_key().await, key, "all pods sign sessions with the same");
    eventually("old parts are gone", || async {
        let plan = cluster.api::<GatewayPlan>().get("web-causeway").await.unwrap();
        let parts = cluster.api::<Supply>().list(&ListParams::default()).await.unwrap().items;
        parts.len() == plan.spec.parts.len()
    })
    .await;
    says(&cluster, "Gateway", "web", "", ("Programmed", "False", "Pending")).await;
    serve(&cluster, "web-causeway").await;
    says(&cluster, "Gateway", "web", "", ("Programmed", "True", "Programmed")).await;

    // All goes with it.
    api(&cluster, "Gateway").delete("web", &DeleteParams::default()).await.unwrap();
    eventually("nothing is left", || async {
        !cluster.exists::<Deployment>("web-causeway").await
            && !cluster.exists::<Service>("web-causeway").await
    })
    .await;
    eventually("the route says that its Gateway is gone", || async {
        let route = api(&cluster, "HTTPRoute").get("shop").await.unwrap();
        let parents = route.data["status"]["parents"].as_array().cloned().unwrap_or_default();
        parents.iter().all(|parent| parent["conditions"][0]["status"] != "True")
    })
    .await;
    operator.stop().await;
}

#[tokio::test]
async fn words_of_others_stay_and_at_rest_nothing_is_written() {
    let cluster = Cluster::start().await;
    let operator = cluster.whole();
    service(&cluster, "shop").await;
    gateway(&cluster, "web", http(8080)).await;
    gateway(&cluster, "web-2", http(8080)).await;
    let spec = json!({
        "parentRefs": [{"name": "web"}, {"name": "web-2"}, {"name": "others"}],
        "rules": [{"backendRefs": [{"name": "shop", "port": 80}]}],
    });
    create(&cluster, "HTTPRoute", "shop", spec).await;
    let foreign = json!({
        "parentRef": {"group": GROUP, "kind": "Gateway", "name": "others"}, "controllerName": "example.com/other",
        "conditions": [{"type": "Accepted", "status": "True", "reason": "Accepted", "message": "x",
                        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}],
    });
    let ours = |route: &DynamicObject| {
        let parents = route.data["status"]["parents"].as_array().cloned().unwrap_or_default();
        parents.iter().filter(|parent| parent["controllerName"] == "causeway.dev/gateway").count()
    };
    eventually("both parents are said at once", || async {
        ours(&api(&cluster, "HTTPRoute").get("shop").await.unwrap()) == 2
    })
    .await;
    let route = api(&cluster, "HTTPRoute").get("shop").await.unwrap();
    let mut parents = route.data["status"]["parents"].as_array().unwrap().clone();
    parents.insert(0, foreign.clone());
    let patch = json!({"status": {"parents": parents}});
    api(&cluster, "HTTPRoute")
        .patch_status("shop", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();

    // A parent that is no longer named loses its entry, and no other does.
    let edit = json!({"spec": {"parentRefs": [{"name": "web"}, {"name": "others"}]}});
    api(&cluster, "HTTPRoute").patch("shop", &PatchParams::default(), &Patch::Merge(&edit)).await.unwrap();
    let after = eventually("one of ours is left", || async {
        let route = api(&cluster, "HTTPRoute").get("shop").await.unwrap();
        (ours(&route) == 1).then_some(route)
    })
    .await;
    assert_eq!(after.data["status"]["parents"][0], foreign);

    for plan in ["web-causeway", "web-2-causeway"] {
        eventually("the plan is there", || async { cluster.exists::<GatewayPlan>(plan).await }).await;
        serve(&cluster, plan).await;
    }
    says(&cluster, "Gateway", "web", "", ("Programmed", "True", "Programmed")).await;
    says(&cluster, "Gateway", "web-2", "", ("Programmed", "True", "Programmed")).await;
    eventually("the revision stands still", || async {
        let before = cluster.revision().await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        cluster.revision().await == before
    })
    .await;
    // Something that concerns nobody changes, and brings no write but its own.
    service(&cluster, "unrelated").await;
    let before = cluster.revision().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(cluster.revision().await, before);
    operator.stop().await;
}

/// A certificate for this name, and its key.
fn certificate(name: &str) -> (String, String) {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

#[tokio::test]
async fn a_certificate_is_copied_for_the_pods_and_followed_and_a_bad_one_is_said() {
    let cluster = Cluster::start().await;
    let operator = cluster.whole();
    let listeners = json!([
        {"name": "https", "port": 8443, "protocol": "HTTPS", "tls": {"certificateRefs": [{"name": "site"}]}},
    ]);
    gateway(&cluster, "web", listeners).await;
    says(&cluster, "Gateway", "web", "/listeners/0", ("ResolvedRefs", "False", "InvalidCertificateRef"))
        .await;
    let (chain, key) = certificate("a.test");
    let secret = |chain: &str, key: &str| {
        let secret = json!({
            "metadata": {"name": "site"}, "type": "kubernetes.io/tls", "stringData": {"tls.crt": chain, "tls.key": key},
        });
        serde_json::from_value::<Secret>(secret).unwrap()
    };
    cluster.api::<Secret>().create(&PostParams::default(), &secret(&chain, &key)).await.unwrap();
    says(&cluster, "Gateway", "web", "/listeners/0", ("ResolvedRefs", "True", "ResolvedRefs")).await;
    let copied = |part: String| {
        let cluster = &cluster;
        async move {
            let copy = cluster.api::<Secret>().get_opt("web-causeway-0").await.unwrap()?;
            let text = String::from_utf8(copy.data?["certificates.json"].0.clone()).unwrap();
            let text = text.replace("\\n", "\n");
            text.contains(part.trim()).then_some(())
        }
    };
    eventually("the pods' Secret has it", || copied(key.clone())).await;
    let role = cluster.api::<Role>().get("web-causeway").await.unwrap();
    assert!(serde_json::to_string(&role.rules).unwrap().contains("web-causeway-0"));
    let plan = cluster.api::<GatewayPlan>().get("web-causeway").await.unwrap();
    assert_eq!(plan.spec.certificates, ["web-causeway-0"]);

    let (other_chain, other_key) = certificate("a.test");
    let change = json!({"stringData": {"tls.crt": other_chain, "tls.key": other_key}});
    cluster.api::<Secret>().patch("site", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    eventually("the other one is there", || copied(other_key.clone())).await;
    let same = cluster.api::<GatewayPlan>().get("web-causeway").await.unwrap();
    assert_eq!(same.metadata.generation, plan.metadata.generation, "the plan names it as before");

    cluster.api::<Secret>().delete("site", &DeleteParams::default()).await.unwrap();
    says(&cluster, "Gateway", "web", "/listeners/0", ("ResolvedRefs", "False", "InvalidCertificateRef"))
        .await;
    eventually("the key is nowhere else", || async {
        cluster.api::<Secret>().get_opt("web-causeway-0").await.unwrap().is_none()
    })
    .await;
    operator.stop().await;
}

#[tokio::test]
async fn an_address_that_is_asked_for_is_had_or_refused() {
    let cluster = Cluster::start().await;
    let operator = cluster.whole();
    let with = |address: Value| json!({"gatewayClassName": "causeway", "listeners": http(8080), "addresses": address});
    create(&cluster, "Gateway", "odd", with(json!([{"type": "example.com/odd", "value": "x"}]))).await;
    says(&cluster, "Gateway", "odd", "", ("Accepted", "False", "UnsupportedAddress")).await;
    assert!(!cluster.exists::<Deployment>("odd-causeway").await);

    create(&cluster, "Gateway", "far", with(json!([{"type": "IPAddress", "value": "192.0.2.7"}]))).await;
    says(&cluster, "Gateway", "far", "", ("Programmed", "False", "AddressNotUsable")).await;

    let usable = json!({"spec": {"addresses": [{"type": "IPAddress", "value": "127.96.77.7"}]}});
    api(&cluster, "Gateway").patch("far", &PatchParams::default(), &Patch::Merge(&usable)).await.unwrap();
    eventually("the Service has the address", || async {
        let service = cluster.api::<Service>().get_opt("far-causeway").await.unwrap()?;
        (service.spec?.cluster_ip? == "127.96.77.7").then_some(())
    })
    .await;
    serve(&cluster, "far-causeway").await;
    says(&cluster, "Gateway", "far", "", ("Programmed", "True", "Programmed")).await;
    let object = api(&cluster, "Gateway").get("far").await.unwrap();
    assert_eq!(object.data["status"]["addresses"], json!([{"type": "IPAddress", "value": "127.96.77.7"}]));

    // One that can't be had takes nothing away from who uses this one.
    let before = made(&cluster, "far").await;
    let beyond = json!({"spec": {"addresses": [{"type": "IPAddress", "value": "192.0.2.7"}]}});
    api(&cluster, "Gateway").patch("far", &PatchParams::default(), &Patch::Merge(&beyond)).await.unwrap();
    says(&cluster, "Gateway", "far", "", ("Programmed", "False", "AddressNotUsable")).await;
    operator.looked("gateway", 2).await;
    assert_eq!(made(&cluster, "far").await, before);

    // Another one means another Service.
    let other = json!({"spec": {"addresses": [{"type": "IPAddress", "value": "127.96.77.8"}]}});
    api(&cluster, "Gateway").patch("far", &PatchParams::default(), &Patch::Merge(&other)).await.unwrap();
    eventually("the Service has the other address", || async {
        let service = cluster.api::<Service>().get_opt("far-causeway").await.unwrap()?;
        (service.spec?.cluster_ip? == "127.96.77.8").then_some(())
    })
    .await;
    operator.stop().await;
}

#[tokio::test]
async fn a_secret_that_can_not_be_read_concerns_its_listener_alone_and_takes_nothing_away() {
    let cluster = Cluster::start().await;
    let fails = Arc::new(AtomicBool::new(true));
    let refused = || {
        let fails = Arc::clone(&fails);
        cluster.operator_refused(move |request| {
            fails.load(Ordering::SeqCst) && request.uri().path() == "/api/v1/namespaces/default/secrets/site"
        })
    };
    let operator = Cluster::run_whole(refused());
    let (chain, key) = certificate("a.test");
    let secret = json!({
        "metadata": {"name": "site"}, "type": "kubernetes.io/tls", "stringData": {"tls.crt": chain, "tls.key": key},
    });
    let secrets = cluster.api::<Secret>();
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let https = json!({"name": "https", "port": 8443, "protocol": "HTTPS", "tls": {"certificateRefs": [{"name": "site"}]}});
    gateway(&cluster, "shop", json!([http(8080)[0], https])).await;
    gateway(&cluster, "web", http(8080)).await;
    eventually("the listener says why", || async {
        let gateway = api(&cluster, "Gateway").get("shop").await.unwrap();
        let conditions = gateway.data.pointer("/status/listeners/1/conditions")?.as_array()?.clone();
        let resolved = conditions.into_iter().find(|found| found["type"] == "ResolvedRefs")?;
        let said = resolved["message"].as_str()?.contains("Secret default/site can't be read");
        (said && resolved["reason"] == "InvalidCertificateRef").then_some(())
    })
    .await;
    for name in ["shop", "web"] {
        eventually("it is made", || made(&cluster, name)).await;
    }

    let copy = async || secrets.get_opt("shop-causeway-0").await.unwrap().and_then(|copy| copy.data);
    fails.store(false, Ordering::SeqCst);
    says(&cluster, "Gateway", "shop", "/listeners/1", ("ResolvedRefs", "True", "ResolvedRefs")).await;
    let before = eventually("the pods are given it", &copy).await;

    // What was read last counts on; and for an operator that never has, what the pods have.
    fails.store(true, Ordering::SeqCst);
    let touch = json!({"metadata": {"labels": {"a": "b"}}});
    secrets.patch("site", &PatchParams::default(), &Patch::Merge(&touch)).await.unwrap();
    operator.looked("gateway", 2).await;
    assert_eq!(copy().await.as_ref(), Some(&before));
    says(&cluster, "Gateway", "shop", "/listeners/1", ("ResolvedRefs", "True", "ResolvedRefs")).await;
    operator.stop().await;
    let operator = Cluster::run_whole(refused());
    gateway(&cluster, "more", http(8080)).await;
    eventually("others are served", || made(&cluster, "more")).await;
    says(&cluster, "Gateway", "shop", "/listeners/1", ("ResolvedRefs", "False", "InvalidCertificateRef"))
        .await;
    operator.looked("gateway", 2).await;
    assert_eq!(copy().await.as_ref(), Some(&before));
    fails.store(false, Ordering::SeqCst);
    says(&cluster, "Gateway", "shop", "/listeners/1", ("ResolvedRefs", "True", "ResolvedRefs")).await;
    operator.stop().await;
}

#[tokio::test]
async fn a_status_that_is_refused_holds_up_nothing_else() {
    let cluster = Cluster::start().await;
    let client =
        cluster.operator_refused(|request| request.uri().path().ends_with("/httproutes/shop/status"));
    let operator = Cluster::run_whole(client);
    service(&cluster, "shop").await;
    gateway(&cluster, "web", http(8080)).await;
    route(&cluster, "shop", "web", "shop").await;
    eventually("it is tried", || async { operator.looks("gateway") > 2 }).await;
    gateway(&cluster, "late", http(8080)).await;
    says(&cluster, "Gateway", "late", "", ("Accepted", "True", "Accepted")).await;
    eventually("the class is held", || async {
        api(&cluster, "GatewayClass").get("causeway").await.unwrap().finalizers().len() == 1
    })
    .await;
    operator.stop().await;
}

#[tokio::test]
async fn a_gateway_that_goes_to_another_class_loses_what_was_made_for_it() {
    let cluster = Cluster::start().await;
    let operator = cluster.whole();
    gateway(&cluster, "web", http(8080)).await;
    eventually("it is made", || async { cluster.exists::<Deployment>("web-causeway").await }).await;
    create(&cluster, "GatewayClass", "others", json!({"controllerName": "example.com/other"})).await;
    let other = json!({"spec": {"gatewayClassName": "others"}});
    api(&cluster, "Gateway").patch("web", &PatchParams::default(), &Patch::Merge(&other)).await.unwrap();
    eventually("nothing of ours is left", || async {
        !cluster.exists::<Deployment>("web-causeway").await
            && !cluster.exists::<GatewayPlan>("web-causeway").await
    })
    .await;
    operator.stop().await;
}

#[tokio::test]
async fn a_cluster_without_the_gateway_api_is_served_and_sees_it_come() {
    let cluster = Cluster::start().await;
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    let mut removed = Vec::new();
    for plural in
        ["gatewayclasses", "gateways", "httproutes", "grpcroutes", "listenersets", "backendtlspolicies"]
    {
        let name = format!("{plural}.{GROUP}");
        if let Some(mut crd) = crds.get_opt(&name).await.unwrap() {
            crds.delete(&name, &DeleteParams::default()).await.unwrap();
            crd.metadata = kube::core::ObjectMeta {
                name: Some(name),
                annotations: crd.metadata.annotations,
                ..Default::default()
            };
            crd.status = None;
            removed.push(crd);
        }
    }
    let operator = cluster.whole();
    eventually("the operator is ready", || async { operator.health.missing().is_empty() }).await;
    for crd in removed.iter().filter(|crd| !crd.name_any().starts_with("grpc")) {
        eventually("the definition is there again", || async {
            crds.create(&PostParams::default(), crd).await.is_ok()
        })
        .await;
    }
    says(&cluster, "GatewayClass", "causeway", "", ("Accepted", "True", "Accepted")).await;
    gateway(&cluster, "web", http(8080)).await;
    eventually("it is made", || async { cluster.exists::<Deployment>("web-causeway").await }).await;
    operator.stop().await;
}

#[tokio::test]
async fn a_cluster_that_serves_only_older_versions_is_served() {
    let cluster = Cluster::start().await;
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    let older = [
        ("GatewayClass", "gatewayclasses", "v1beta1"),
        ("Gateway", "gateways", "v1beta1"),
        ("HTTPRoute", "httproutes", "v1beta1"),
        ("GRPCRoute", "grpcroutes", "v1alpha2"),
        ("TLSRoute", "tlsroutes", "v1alpha2"),
        ("TCPRoute", "tcproutes", "v1alpha2"),
        ("UDPRoute", "udproutes", "v1alpha2"),
        ("BackendTLSPolicy", "backendtlspolicies", "v1alpha3"),
        ("ReferenceGrant", "referencegrants", "v1beta1"),
    ];
    for (_, plural, version) in older {
        let name = format!("{plural}.{GROUP}");
        let mut versions = crds.get(&name).await.unwrap().spec.versions;
        if !versions.iter().any(|found| found.name == version) {
            let newest = versions[0].clone();
            versions.push(CustomResourceDefinitionVersion {
                name: version.to_owned(),
                storage: false,
                ..newest
            });
        }
        for found in &mut versions {
            found.served = found.name == version;
        }
        let patch = json!({"spec": {"versions": versions}});
        crds.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }
    let api = |kind: &str| {
        let (kind, plural, version) = older.iter().find(|(known, ..)| *known == kind).unwrap();
        let resource =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, version, kind), plural);
        match *kind {
            "GatewayClass" => Api::<DynamicObject>::all_with(cluster.client.clone(), &resource),
            _ => Api::<DynamicObject>::namespaced_with(cluster.client.clone(), "default", &resource),
        }
    };
    let says = async |kind: &str, name: &str, at: &str, type_: &str| {
        eventually(&format!("{kind} {name}: {type_}"), async || {
            let found = api(kind).get_opt(name).await.ok()??;
            let all = found.data.pointer(&format!("/status{at}/conditions"))?.as_array()?.clone();
            all.iter().any(|found| found["type"] == type_ && found["status"] == "True").then_some(())
        })
        .await;
    };
    for (kind, ..) in older {
        eventually("the older version is there", async || {
            api(kind).list(&ListParams::default()).await.is_ok()
        })
        .await;
    }

    let operator = cluster.whole();
    says("GatewayClass", "causeway", "", "Accepted").await;
    service(&cluster, "shop").await;
    let to = json!([{"backendRefs": [{"name": "shop", "port": 80}]}]);
    let mut objects = vec![(
        "Gateway",
        "web",
        json!({"gatewayClassName": "causeway", "listeners": [
            {"name": "http", "port": 8080, "protocol": "HTTP"},
            {"name": "tls", "port": 8443, "protocol": "TLS", "tls": {"mode": "Passthrough"}},
            {"name": "tcp", "port": 9000, "protocol": "TCP"},
            {"name": "udp", "port": 9001, "protocol": "UDP"},
        ]}),
    )];
    let routes = [
        ("HTTPRoute", "http"),
        ("GRPCRoute", "http"),
        ("TLSRoute", "tls"),
        ("TCPRoute", "tcp"),
        ("UDPRoute", "udp"),
    ];
    for (kind, section) in routes {
        let mut spec = json!({"parentRefs": [{"name": "web", "sectionName": section}], "rules": to});
        if section == "tls" {
            spec["hostnames"] = json!(["a.test"]);
        }
        objects.push((kind, "shop", spec));
    }
    let validation = json!({"hostname": "a.test", "wellKnownCACertificates": "System"});
    let target = json!([{"group": "", "kind": "Service", "name": "shop"}]);
    objects.push(("BackendTLSPolicy", "shop", json!({"targetRefs": target, "validation": validation})));
    for (kind, name, spec) in objects {
        let (_, _, version) = older.iter().find(|(known, ..)| *known == kind).unwrap();
        let object = json!({
            "apiVersion": format!("{GROUP}/{version}"), "kind": kind, "metadata": {"name": name}, "spec": spec,
        });
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        api(kind).create(&PostParams::default(), &object).await.unwrap();
    }
    for (kind, _) in routes {
        says(kind, "shop", "/parents/0", "Accepted").await;
    }
    says("BackendTLSPolicy", "shop", "/ancestors/0", "Accepted").await;
    eventually("the plan is there", || async { cluster.exists::<GatewayPlan>("web-causeway").await }).await;
    serve(&cluster, "web-causeway").await;
    says("Gateway", "web", "", "Programmed").await;
    eventually("the class is held", || async {
        api("GatewayClass").get("causeway").await.unwrap().finalizers().len() == 1
    })
    .await;
    operator.stop().await;
}

/// Creates a TrafficPolicy.
async fn policy(cluster: &Cluster, name: &str, spec: Value) {
    let policy = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap();
    cluster.api::<TrafficPolicy>().create(&PostParams::default(), &policy).await.unwrap();
}

/// Waits until a TrafficPolicy hears this of its first target.
async fn hears(cluster: &Cluster, name: &str, status: &str, reason: &str) {
    eventually(&format!("TrafficPolicy {name}: {status} {reason}"), || async {
        let policy = cluster.api::<TrafficPolicy>().get(name).await.unwrap();
        let status_of = policy.status?;
        let ancestor = status_of.ancestors.first()?;
        assert_eq!(ancestor.controller_name, "causeway.dev/gateway");
        let accepted = ancestor.conditions.iter().find(|condition| condition.type_ == "Accepted")?;
        (accepted.status == status && accepted.reason == reason).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_traffic_policy_hears_what_became_of_it_and_is_in_the_plan() {
    let cluster = Cluster::start().await;
    let operator = cluster.whole();
    service(&cluster, "shop").await;
    let target = json!([{"kind": "HTTPRoute", "name": "shop"}]);
    policy(&cluster, "limits", json!({"targetRefs": target, "bodyLimit": "7Ki"})).await;
    hears(&cluster, "limits", "False", "TargetNotFound").await;
    gateway(&cluster, "web", http(8080)).await;
    route(&cluster, "shop", "web", "shop").await;
    hears(&cluster, "limits", "True", "Accepted").await;
    eventually("the plan has it", || async {
        let parts = cluster.api::<Supply>().list(&ListParams::default()).await.unwrap().items;
        parts.iter().any(|part| serde_json::to_string(part).unwrap().contains("7Ki"))
    })
    .await;
    // By name, where both are of the same second.
    policy(&cluster, "more", json!({"targetRefs": target, "bodyLimit": "9Ki"})).await;
    hears(&cluster, "more", "False", "Conflicted").await;
    let edit = json!({"spec": {"bodyLimit": null, "pathRewrite": {"pattern": "(", "replacement": "/"}}});
    cluster
        .api::<TrafficPolicy>()
        .patch("more", &PatchParams::default(), &Patch::Merge(&edit))
        .await
        .unwrap();
    hears(&cluster, "more", "False", "Invalid").await;
    hears(&cluster, "limits", "True", "Accepted").await;
    operator.stop().await;
}

/// The uid of the Service that was made for a Gateway.
async fn made(cluster: &Cluster, name: &str) -> Option<String> {
    cluster.api::<Service>().get_opt(&format!("{name}-causeway")).await.unwrap()?.metadata.uid
}

#[tokio::test]
async fn what_runs_for_a_gateway_stays_while_it_is_not_accepted_or_its_class_is_gone() {
    let cluster = Cluster::start().await;
    let operator = cluster.whole();
    gateway(&cluster, "web", http(8080)).await;
    let before = eventually("it is made", || made(&cluster, "web")).await;
    let edit = |spec: Value| {
        let api = api(&cluster, "Gateway");
        async move {
            let patch = json!({"spec": spec});
            api.patch("web", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
        }
    };
    let parameters = json!({"group": "causeway.dev", "kind": "GatewayParameters", "name": "missing"});
    edit(json!({"infrastructure": {"parametersRef": parameters}})).await;
    says(&cluster, "Gateway", "web", "", ("Accepted", "False", "InvalidParameters")).await;
    assert_eq!(made(&cluster, "web").await.as_ref(), Some(&before));
    edit(json!({"infrastructure": null, "addresses": [{"type": "test/fake", "value": "x"}]})).await;
    says(&cluster, "Gateway", "web", "", ("Accepted", "False", "UnsupportedAddress")).await;
    assert_eq!(made(&cluster, "web").await.as_ref(), Some(&before));
    edit(json!({"addresses": null})).await;
    says(&cluster, "Gateway", "web", "", ("Accepted", "True", "Accepted")).await;

    // A class in use is not let go.
    let classes = api(&cluster, "GatewayClass");
    eventually("the class is held", || async {
        classes.get("causeway").await.unwrap().finalizers().len() == 1
    })
    .await;
    classes.delete("causeway", &DeleteParams::default()).await.unwrap();
    // Somebody takes it away by force.
    let patch = json!({"metadata": {"finalizers": null}});
    classes.patch("causeway", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    eventually("the class is gone", || async { classes.get_opt("causeway").await.unwrap().is_none() }).await;
    // One that comes later shows that the operator has looked since.
    create(&cluster, "GatewayClass", "other", json!({"controllerName": "causeway.dev/gateway"})).await;
    says(&cluster, "GatewayClass", "other", "", ("Accepted", "True", "Accepted")).await;
    assert_eq!(made(&cluster, "web").await.as_ref(), Some(&before));
    api(&cluster, "Gateway").delete("web", &DeleteParams::default()).await.unwrap();
    eventually("it goes with its Gateway", || async { made(&cluster, "web").await.is_none() }).await;
    operator.stop().await;
}

#[tokio::test]
async fn a_class_is_held_only_while_gateways_are_of_it() {
    let cluster = Cluster::start().await;
    let operator = cluster.whole();
    let classes = api(&cluster, "GatewayClass");
    let held = || async {
        let class = classes.get_opt("causeway").await.unwrap()?;
        Some(class.finalizers().to_vec())
    };
    says(&cluster, "GatewayClass", "causeway", "", ("Accepted", "True", "Accepted")).await;
    assert_eq!(held().await, Some(Vec::new()));
    gateway(&cluster, "web", http(8080)).await;
    let word = "gateway-exists-finalizer.gateway.networking.k8s.io";
    eventually("it is held", || async { held().await == Some(vec![word.to_owned()]) }).await;
    classes.delete("causeway", &DeleteParams::default()).await.unwrap();
    assert!(classes.get("causeway").await.unwrap().metadata.deletion_timestamp.is_some());
    api(&cluster, "Gateway").delete("web", &DeleteParams::default()).await.unwrap();
    eventually("it goes", || async { held().await.is_none() }).await;
    operator.stop().await;
}

#[tokio::test]
async fn a_gateway_that_can_not_be_given_what_it_needs_says_so() {
    let cluster = Cluster::start().await;
    // Somebody else has the name.
    let taken = json!({"metadata": {"name": "web-causeway"}});
    let taken: ServiceAccount = serde_json::from_value(taken).unwrap();
    cluster.api::<ServiceAccount>().create(&PostParams::default(), &taken).await.unwrap();
    let operator = cluster.whole();
    gateway(&cluster, "web", http(8080)).await;
    eventually("it says why", || async {
        let gateway = api(&cluster, "Gateway").get("web").await.unwrap();
        let conditions = gateway.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let programmed = conditions.into_iter().find(|found| found["type"] == "Programmed")?;
        let said =
            programmed["message"].as_str()?.contains("ServiceAccount default/web-causeway already exists");
        (said && programmed["status"] == "False").then_some(())
    })
    .await;
    cluster.api::<ServiceAccount>().delete("web-causeway", &DeleteParams::default()).await.unwrap();
    eventually("it is made", || made(&cluster, "web")).await;
    serve(&cluster, "web-causeway").await;
    says(&cluster, "Gateway", "web", "", ("Programmed", "True", "Programmed")).await;
    operator.stop().await;
}
