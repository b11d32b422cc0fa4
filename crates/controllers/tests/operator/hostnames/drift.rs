//! Records in a zone of Knot: those that somebody else wrote, those that somebody edits, and those that a secondary has not yet.

use std::{
    io::Write as _,
    process::{Command, Stdio},
    time::Duration,
};

use causeway_api::conditions::ConditionType;
use causeway_testkit::{
    eventually,
    name_server::{KEY, NameServer, SECRET, Software, dig},
};
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api,
    api::{DynamicObject, ListParams, PostParams},
};
use serde_json::{Value, json};

use super::{peers::balance_as, scene::Scene};

impl Scene {
    /// The zone `lab.test` of a name server, with certificates of our own authority.
    async fn own_zone(&self, server: &NameServer, answered_by: Value) {
        self.credentials("tsig", json!({"keyName": KEY, "algorithm": "hmac-sha256", "secret": SECRET})).await;
        let dns = json!({
            "provider": "rfc2136", "server": server.address.to_string(), "credentialsSecret": "tsig",
            "answeredBy": answered_by,
        });
        self.zone("lab", json!({"zoneId": "lab.test", "domain": "lab.test", "dns": dns})).await;
    }
}

/// Somebody with the key writes into the zone.
fn edit(server: &NameServer, lines: &str) {
    let mut nsupdate = Command::new("nsupdate");
    nsupdate.args(["-y", &format!("hmac-sha256:{KEY}:{SECRET}")]).stdin(Stdio::piped());
    let mut running = nsupdate.spawn().unwrap();
    let address = server.address;
    let script = format!("server {} {}\nzone lab.test\n{lines}\nsend\n", address.ip(), address.port());
    running.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert!(running.wait().unwrap().success(), "{script}");
}

fn short(server: &NameServer, kind: &str, name: &str) -> String {
    dig(server.address, &["+short", kind, name]).trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn records_that_somebody_edits_in_knot_are_put_right_and_told() {
    let Some(server) = NameServer::start(Software::Knot, "lab.test", "") else { return };
    let scene = Scene::new().await;
    scene.own_zone(&server, json!([])).await;
    let class = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "other"},
        "spec": {"controllerName": "example.test/other"},
    });
    let resource = kube::api::ApiResource::from_gvk(&kube::api::GroupVersionKind::gvk(
        "gateway.networking.k8s.io",
        "v1",
        "GatewayClass",
    ));
    let classes = Api::<DynamicObject>::all_with(scene.client(), &resource);
    classes.create(&PostParams::default(), &serde_json::from_value(class).unwrap()).await.unwrap();
    let addresses = ["192.0.2.7", "2001:db8::7"];
    let client = scene.client();
    let balancers = tokio::spawn(async move { balance_as(client, "other", "IPAddress", &addresses).await });
    let operator = scene.usual_operator(|config| config.hostnames.sweep = Duration::from_millis(500));
    scene.namespace("shop").await;
    let spec = json!({
        "zoneId": "lab.test", "hostname": "shop.lab.test", "additionalHostnames": ["*.shop.lab.test", "lab.test"],
        "gatewayClass": "other",
    });
    scene.ask_for("shop", "shop", spec).await;
    scene.ready("shop", "shop").await;
    let is_right = |name: &str| {
        let found = [short(&server, "a", name), short(&server, "aaaa", name)];
        if found == addresses { Ok(()) } else { Err(format!("{name}: {found:?}")) }
    };
    // Of both families, also at the top and below a wildcard.
    for name in ["shop.lab.test", "any.shop.lab.test", "lab.test"] {
        is_right(name).unwrap();
    }
    for (lines, what) in [
        ("update delete shop.lab.test A\nupdate add shop.lab.test 60 A 192.0.2.66", "edited"),
        ("update delete shop.lab.test AAAA", "deleted"),
        ("update delete *.shop.lab.test", "deleted"),
        ("update add lab.test 60 A 192.0.2.66", "added"),
    ] {
        edit(&server, lines);
        eventually(&format!("what was {what} is put right"), || async {
            is_right("shop.lab.test").and(is_right("any.shop.lab.test")).and(is_right("lab.test"))
        })
        .await;
    }
    let events = Api::<Event>::namespaced(scene.client(), "shop");
    eventually("it is told", || async {
        let events = events.list(&ListParams::default()).await.unwrap().items;
        events.iter().any(|event| {
            event.reason.as_deref() == Some("DriftDetected")
                && event.note.as_ref().is_some_and(|note| note.contains("lab.test"))
        })
    })
    .await;
    scene.delete("shop", "shop").await;
    scene.gone("shop", "shop").await;
    scene.is_bare().await;
    assert_eq!(server.names(), [""; 0]);
    operator.stop().await;
    balancers.abort();
}

/// What a condition of `shop/shop` says.
async fn said(scene: &Scene, kind: ConditionType, status: &str, reason: &str) -> String {
    let request = scene.says(("shop", "shop"), (kind, status, reason)).await;
    let conditions = request.status.unwrap().conditions;
    conditions.into_iter().find(|one| one.type_ == kind.as_str()).unwrap().message
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_was_there_before_is_not_touched() {
    let Some(server) = NameServer::start(Software::Knot, "lab.test", "shop A 192.0.2.77") else { return };
    let scene = Scene::new().await;
    scene.own_zone(&server, json!([])).await;
    let operator = scene.usual_operator(|_| {});
    scene.namespace("shop").await;
    scene.ask_for("shop", "shop", json!({"zoneId": "lab.test", "hostname": "shop.lab.test"})).await;
    let message = said(&scene, ConditionType::DnsAliasReady, "False", "RecordNotOwned").await;
    assert!(message.contains("shop.lab.test has A 192.0.2.77"), "{message}");
    assert_eq!(short(&server, "a", "shop.lab.test"), "192.0.2.77");
    scene.delete("shop", "shop").await;
    scene.gone("shop", "shop").await;
    scene.is_bare().await;
    assert_eq!(short(&server, "a", "shop.lab.test"), "192.0.2.77");
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_published_and_removed_when_the_secondary_says_so_too() {
    let Some(primary) = NameServer::start(Software::Knot, "lab.test", "") else { return };
    let Some(secondary) = NameServer::secondary(&primary, "lab.test") else { return };
    let scene = Scene::new().await;
    scene.own_zone(&primary, json!([secondary.address.to_string()])).await;
    let operator = scene.usual_operator(|_| {});
    scene.namespace("shop").await;
    scene.ask_for("shop", "shop", json!({"zoneId": "lab.test", "hostname": "shop.lab.test"})).await;
    eventually("the primary has it", || async { !short(&primary, "a", "shop.lab.test").is_empty() }).await;
    let waits = eventually("the secondary is waited for", || async {
        let message = said(&scene, ConditionType::DnsAliasReady, "False", "Progressing").await;
        if message.contains(&secondary.address.to_string()) { Ok(message) } else { Err(message) }
    })
    .await;
    assert!(waits.contains("no records"), "{waits}");
    secondary.catch_up();
    let status = scene.ready("shop", "shop").await.status.unwrap();
    assert_eq!(short(&secondary, "a", "shop.lab.test"), status.addresses[0]);
    // No record may lead anywhere after the claim is released.
    scene.delete("shop", "shop").await;
    eventually("the primary has it no more", || async { short(&primary, "a", "shop.lab.test").is_empty() })
        .await;
    eventually("the secondary is waited for", || async {
        let message = said(&scene, ConditionType::Deleting, "True", "DeletionInProgress").await;
        if message.contains(&secondary.address.to_string()) { Ok(()) } else { Err(message) }
    })
    .await;
    assert_eq!(scene.claims().await.len(), 1);
    secondary.catch_up();
    scene.gone("shop", "shop").await;
    scene.is_bare().await;
    assert_eq!(short(&secondary, "a", "shop.lab.test"), "");
    operator.stop().await;
}
