//! Certificates of Pebble for names in BIND and Knot, asked for as a team would.

use std::{
    net::{IpAddr, SocketAddr},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use causeway_api::{conditions::ConditionType, names};
use causeway_testkit::{
    eventually,
    name_server::{NameServer, Software, dig},
    pebble::Pebble,
    port,
};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams},
};
use serde_json::json;

use super::{
    data_plane::DataPlane,
    scene::{EDGE, Scene},
};

async fn by_dns(software: Software) {
    let Some(server) = NameServer::start(software, "lab.test", "") else { return };
    let Some(pebble) = Pebble::start(server.address, false) else { return };
    let scene = Scene::new().await;
    scene.acme_zone(server.address, &pebble, &pebble.directory(), "DNS-01").await;
    let operator = scene.usual_operator(|_| {});
    scene.namespace("shop").await;
    let spec = json!({
        "zoneId": "lab.test", "hostname": "shop.lab.test", "additionalHostnames": ["*.shop.lab.test", "lab.test"], "ttl": 77,
    });
    scene.ask_for("shop", "shop", spec).await;
    let status = scene.ready("shop", "shop").await.status.unwrap();
    assert!(status.certificate.unwrap().issuer.unwrap().contains("Pebble"));
    assert_eq!(status.hostname_zone.as_deref(), Some("lab"));
    for name in ["shop.lab.test", "any.shop.lab.test", "lab.test"] {
        let answer = dig(server.address, &["+noall", "+answer", "a", name]);
        assert!(answer.contains(&status.addresses[0]) && answer.contains("\t77\t"), "{answer}");
    }
    eventually("the proofs are gone", || async {
        let names = server.names();
        let found = names.iter().any(|name| name.starts_with("_acme-challenge"));
        if found { Err(format!("{names:?}")) } else { Ok(()) }
    })
    .await;
    let zone = scene.zones().get("lab").await.unwrap();
    assert_eq!(zone.status.unwrap().conditions[0].status, "True");

    // A zone stays for as long as there is something in it.
    scene.zones().delete("lab", &DeleteParams::default()).await.unwrap();
    eventually("the zone says what it waits for", || async {
        let zone = scene.zones().get("lab").await.unwrap();
        let said = zone.status.unwrap().conditions.remove(0);
        said.reason == "DeletionInProgress" && said.message.contains('3')
    })
    .await;
    scene.delete("shop", "shop").await;
    scene.gone("shop", "shop").await;
    scene.is_bare().await;
    assert_eq!(server.names(), [""; 0]);
    eventually("the zone is gone", || async { scene.zones().get_opt("lab").await.unwrap().is_none() }).await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_in_knot_is_proven_published_and_taken_back() {
    by_dns(Software::Knot).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_in_bind_is_proven_published_and_taken_back() {
    by_dns(Software::Bind).await;
}

/// Who issued the certificate that is shown for a name.
fn shown(address: SocketAddr, name: &str) -> String {
    let mut openssl = Command::new("openssl");
    openssl.args(["s_client", "-connect", &address.to_string(), "-servername", name]).stdin(Stdio::null());
    let output = openssl.output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_proven_by_an_answer_of_our_own_gateway() {
    let Some(server) = NameServer::start(Software::Knot, "lab.test", "") else { return };
    let Some(pebble) = Pebble::start(server.address, false) else { return };
    let scene = Scene::new().await;
    scene.acme_zone(server.address, &pebble, &pebble.directory(), "HTTP-01").await;
    let https = port::free();
    let operator = scene.usual_operator(|config| {
        config.hostnames.world.http_port = Some(pebble.http_port);
        config.hostnames.world.https_port = https;
    });
    let data_plane = DataPlane::start(scene.client());
    scene.namespace("shop").await;
    let spec = json!({
        "zoneId": "lab.test", "hostname": "web.lab.test", "additionalHostnames": ["www.web.lab.test"],
    });
    scene.ask_for("shop", "web", spec).await;
    let status = scene.ready("shop", "web").await.status.unwrap();
    let address = SocketAddr::new(status.addresses[0].parse::<IpAddr>().unwrap(), https);
    eventually("the certificate is shown", || async {
        let shown = shown(address, "www.web.lab.test");
        if shown.contains("Pebble") { Ok(()) } else { Err(shown) }
    })
    .await;
    // What proved the names is gone, and with it the right to answer for them.
    eventually("the answers are gone", || async {
        let routes = scene.gateway_api("HTTPRoute", EDGE).list(&ListParams::default()).await.unwrap().items;
        let names: Vec<String> = routes.iter().map(ResourceExt::name_any).collect();
        let grant = scene.grant(EDGE).await.unwrap().spec.hostnames;
        if names == ["gw-01-redirect"] && grant.is_empty() {
            Ok(())
        } else {
            Err(format!("{names:?} {grant:?}"))
        }
    })
    .await;
    scene.delete("shop", "web").await;
    scene.gone("shop", "web").await;
    scene.is_bare().await;
    assert_eq!(server.names(), [""; 0]);
    operator.stop().await;
    data_plane.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_for_moments_is_renewed_in_time_and_no_client_notices() {
    let Some(server) = NameServer::start(Software::Knot, "lab.test", "") else { return };
    let Some(pebble) = Pebble::brief(server.address, 45) else { return };
    let scene = Scene::new().await;
    scene.acme_zone(server.address, &pebble, &pebble.directory(), "DNS-01").await;
    let https = port::free();
    let operator = scene.usual_operator(|config| {
        // Nobody looks by himself before it would be over.
        config.hostnames.sweep = Duration::from_mins(10);
        config.hostnames.world.https_port = https;
    });
    let data_plane = DataPlane::start(scene.client());
    scene.namespace("shop").await;
    scene.ask_for("shop", "shop", json!({"zoneId": "lab.test", "hostname": "shop.lab.test"})).await;
    let status = scene.ready("shop", "shop").await.status.unwrap();
    let address = SocketAddr::new(status.addresses[0].parse::<IpAddr>().unwrap(), https);
    let first = status.certificate.unwrap();
    eventually("curl is answered", || async {
        let code = answered(address, "shop.lab.test");
        if code == "404" { Ok(()) } else { Err(code) }
    })
    .await;
    // Clients come all the time, on connections of their own.
    let ends = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..2)
        .map(|_| {
            let ends = Arc::clone(&ends);
            tokio::task::spawn_blocking(move || {
                let mut codes = Vec::new();
                while !ends.load(Ordering::Relaxed) {
                    codes.push(answered(address, "shop.lab.test"));
                }
                codes
            })
        })
        .collect();
    let shown_first = shown(address, "shop.lab.test");
    eventually("another certificate", || async {
        let status = scene.requests("shop").get("shop").await.unwrap().status.unwrap();
        let ready = status.conditions.iter().find(|one| one.type_ == ConditionType::Ready.as_str()).unwrap();
        assert_eq!(ready.status, "True", "{ready:?}");
        let now = status.certificate.unwrap();
        assert!(jiff::Timestamp::now() < now.not_after.as_ref().unwrap().0, "{now:?}");
        if now.serial == first.serial { Err(format!("{now:?}")) } else { Ok(()) }
    })
    .await;
    let of =
        |shown: &str| shown.lines().skip_while(|line| !line.contains("BEGIN CERT")).nth(5).map(str::to_owned);
    eventually("it is shown", || async {
        let shown = shown(address, "shop.lab.test");
        of(&shown).is_some() && of(&shown) != of(&shown_first)
    })
    .await;
    ends.store(true, Ordering::Relaxed);
    let mut codes = Vec::new();
    for client in clients {
        codes.extend(client.await.unwrap());
    }
    println!("{} requests while a certificate was renewed", codes.len());
    assert!(codes.len() > 20, "{}", codes.len());
    // Nothing is behind the gateway: an answer of the gateway itself is what a client of it gets.
    assert!(codes.iter().all(|code| code == "404"), "{codes:?}");
    operator.stop().await;
    data_plane.stop().await;
}

/// The status of curl's answer; 000 if there is none.
fn answered(address: SocketAddr, name: &str) -> String {
    let mut curl = Command::new("curl");
    curl.args(["-sk", "--max-time", "5", "-o", "/dev/null", "-w", "%{http_code}", "--resolve"]);
    curl.arg(format!("{name}:{}:{}", address.port(), address.ip()));
    let output = curl.arg(format!("https://{name}:{}/", address.port())).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proof_that_can_not_be_written_is_named_and_leaves_nothing() {
    let Some(server) = NameServer::start(Software::Knot, "lab.test", "_acme-challenge.shop TXT theirs")
    else {
        return;
    };
    let Some(pebble) = Pebble::start(server.address, false) else { return };
    let scene = Scene::new().await;
    scene.acme_zone(server.address, &pebble, &pebble.directory(), "DNS-01").await;
    let operator = scene.usual_operator(|_| {});
    scene.namespace("shop").await;
    scene.ask_for("shop", "shop", json!({"zoneId": "lab.test", "hostname": "shop.lab.test"})).await;
    let request =
        scene.says(("shop", "shop"), (ConditionType::DnsValidated, "False", "RecordNotOwned")).await;
    let conditions = request.status.unwrap().conditions;
    let said = conditions.iter().find(|one| one.type_ == "DnsValidated").unwrap();
    assert!(said.message.contains("_acme-challenge.shop.lab.test"), "{}", said.message);
    scene.delete("shop", "shop").await;
    scene.gone("shop", "shop").await;
    scene.is_bare().await;
    assert_eq!(server.names(), ["_acme-challenge.shop.lab.test"]);
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_goes_though_the_account_of_its_certificate_is_another_one_by_now() {
    let Some(server) = NameServer::start(Software::Knot, "lab.test", "") else { return };
    let Some(pebble) = Pebble::start(server.address, false) else { return };
    let scene = Scene::new().await;
    scene.acme_zone(server.address, &pebble, &pebble.directory(), "DNS-01").await;
    let operator = scene.usual_operator(|_| {});
    scene.namespace("shop").await;
    scene.ask_for("shop", "shop", json!({"zoneId": "lab.test", "hostname": "shop.lab.test"})).await;
    scene.ready("shop", "shop").await;
    operator.stop().await;
    // Somebody removes the account, and the next operator makes another one.
    let secrets = Api::<Secret>::namespaced(scene.client(), names::NAMESPACE);
    let all = secrets.list(&ListParams::default()).await.unwrap().items;
    let account =
        all.iter().map(ResourceExt::name_any).find(|name| name.starts_with("causeway-acme-")).unwrap();
    secrets.delete(&account, &DeleteParams::default()).await.unwrap();
    let operator = scene.usual_operator(|_| {});
    scene.delete("shop", "shop").await;
    scene.gone("shop", "shop").await;
    scene.is_bare().await;
    assert_eq!(server.names(), [""; 0]);
    operator.stop().await;
}
