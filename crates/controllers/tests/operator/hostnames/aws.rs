//! Certificates of ACM and records of Route 53, as moto plays them, for load balancers that the test plays.

use std::time::Instant;

use causeway_api::{
    DnsProviderKind, DomainClaim, GatewayHostnameRequest, IssuerKind, ZoneCertificates, ZoneDns,
    conditions::{self, ConditionType},
    names,
};
use causeway_controllers::operator::Config;
use causeway_testkit::{eventually, moto::Moto};
use futures::{StreamExt as _, stream};
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use serde_json::json;

use super::{
    peers::{BALANCER, balance, counted, hosted_zone},
    scene::Scene,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_on_a_load_balancer_of_aws_and_leaves_nothing() {
    let Some(moto) = Moto::start(1) else { return };
    let scene = Scene::new().await;
    scene.aws_classes().await;
    let zone = scene.aws_zone(&moto, &moto.endpoint(), "lab.test", "test").await;
    let balancers = tokio::spawn(balance(scene.client()));
    let operator = scene.usual_operator(|_| {});
    scene.namespace("shop").await;
    let waf = "arn:aws:wafv2:eu-central-1:123456789012:regional/webacl/x/1";
    let spec = json!({
        "zoneId": zone, "hostname": "lab.test", "additionalHostnames": ["*.lab.test"], "wafArn": waf,
        "visibility": "internal",
    });
    scene.ask_for("shop", "shop", spec).await;
    let status = scene.ready("shop", "shop").await.status.unwrap();
    let arn = status.certificate_arn.unwrap();
    assert!(arn.starts_with("arn:aws:acm:eu-central-1:"), "{arn}");
    assert_eq!(status.assigned_load_balancer.as_deref(), Some(BALANCER));
    let records = moto.python(&format!(
        "for r in route53.list_resource_record_sets(HostedZoneId='{zone}')['ResourceRecordSets']:\n\
         \x20 print(r['Name'], r['Type'], r.get('AliasTarget', {{}}).get('HostedZoneId', ''))"
    ));
    for line in ["lab.test. A Z215JYRZR1TBD5", "lab.test. AAAA Z215JYRZR1TBD5"] {
        assert!(records.lines().any(|one| one == line), "{records}");
    }
    let wildcards = ["\\052.lab.test. A Z215JYRZR1TBD5", "*.lab.test. A Z215JYRZR1TBD5"];
    assert!(records.lines().any(|one| wildcards.contains(&one)), "{records}");
    // Told both ways.
    let gateway = scene.gateways().await.remove(0);
    let annotations = gateway.metadata.annotations.unwrap();
    assert_eq!(annotations["alb.ingress.kubernetes.io/certificate-arn"], arn);
    assert_eq!(annotations[names::ANNOTATION_WAF], waf);
    let reference = &gateway.data["spec"]["infrastructure"]["parametersRef"];
    assert_eq!(reference["name"], "gw-01-config");
    let configuration = scene.configurations().get("gw-01-config").await.unwrap();
    assert_eq!(
        configuration.data["spec"],
        json!({
            "scheme": "internal", "wafV2": {"webACL": waf},
            "listenerConfigurations": [
                {"protocolPort": "HTTPS:443", "defaultCertificate": arn, "certificates": []},
                {"protocolPort": "HTTP:80"},
            ],
        })
    );

    // Records that somebody edits or removes are put right.
    moto.python(&format!(
        "alias = {{'HostedZoneId': 'Z215JYRZR1TBD5', 'DNSName': 'elsewhere.eu-central-1.elb.amazonaws.com', 'EvaluateTargetHealth': False}}\n\
         changes = [{{'Action': 'UPSERT', 'ResourceRecordSet': {{'Name': 'lab.test', 'Type': 'AAAA', 'AliasTarget': alias}}}}]\n\
         for r in route53.list_resource_record_sets(HostedZoneId='{zone}')['ResourceRecordSets']:\n\
         \x20 if r['Name'] in ['*.lab.test.', '\\\\052.lab.test.']:\n\
         \x20   changes.append({{'Action': 'DELETE', 'ResourceRecordSet': r}})\n\
         assert len(changes) == 3\n\
         route53.change_resource_record_sets(HostedZoneId='{zone}', ChangeBatch={{'Changes': changes}})"
    ));
    eventually("the records are back", || async {
        let targets = moto.python(&format!(
            "for r in route53.list_resource_record_sets(HostedZoneId='{zone}')['ResourceRecordSets']:\n\
             \x20 if 'AliasTarget' in r: print(r['Name'], r['Type'], r['AliasTarget']['DNSName'])"
        ));
        let right = targets.lines().filter(|line| line.contains(BALANCER)).count();
        if right == 4 { Ok(()) } else { Err(targets) }
    })
    .await;

    // A certificate that somebody removes is replaced, and the listener's with it.
    moto.python(&format!("acm.delete_certificate(CertificateArn='{arn}')"));
    let second = eventually("another certificate is served", || async {
        let status = scene.requests("shop").get("shop").await.unwrap().status.unwrap();
        let ready = status.conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True");
        status.certificate_arn.filter(|now| *now != arn && ready)
    })
    .await;
    let configuration = scene.configurations().get("gw-01-config").await.unwrap();
    let certificate = &configuration.data["spec"]["listenerConfigurations"][0]["defaultCertificate"];
    assert_eq!(*certificate, json!(second));

    scene.delete("shop", "shop").await;
    scene.gone("shop", "shop").await;
    scene.is_bare().await;
    assert_eq!(counted(&moto, &zone, "lab.test"), (0, 0));
    assert_eq!(scene.configurations().list(&ListParams::default()).await.unwrap().items.len(), 0);
    operator.stop().await;
    balancers.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zone_that_aws_does_not_have_is_said_of_the_zone_and_of_the_request() {
    let Some(moto) = Moto::start(1000) else { return };
    let scene = Scene::new().await;
    scene.aws_classes().await;
    let there = scene.aws_zone(&moto, &moto.endpoint(), "lab.test", "gone").await;
    scene
        .zone(
            "nowhere",
            json!({
                "zoneId": "Z0NOSUCHZONE", "domain": "nowhere.test", "gatewayClass": "aws-alb",
                "dns": {"provider": "aws", "credentialsSecret": "aws", "endpoint": moto.endpoint()},
                "certificates": {
                    "issuer": "aws", "credentialsSecret": "aws", "endpoint": moto.endpoint(), "region": "eu-central-1",
                },
            }),
        )
        .await;
    let operator = scene.usual_operator(|_| {});
    let condition = async || {
        let status = scene.zones().get("nowhere").await.unwrap().status?;
        status.conditions.into_iter().next()
    };
    eventually("the zone says so", || async {
        condition().await.is_some_and(|one| one.status == "False" && one.reason == "ZoneNotFound")
    })
    .await;
    // And goes on saying so, though nobody asks for anything.
    operator.looked("hostnames", 3).await;
    assert_eq!(condition().await.unwrap().status, "False");
    scene.namespace("shop").await;
    scene.ask_for("shop", "shop", json!({"zoneId": "Z0NOSUCHZONE", "hostname": "shop.nowhere.test"})).await;
    let request = scene.says(("shop", "shop"), (ConditionType::DnsValidated, "False", "ZoneNotFound")).await;
    let conditions = request.status.unwrap().conditions;
    let said = conditions.iter().find(|one| one.type_ == "DnsValidated").unwrap();
    assert!(said.message.contains("Z0NOSUCHZONE"), "{}", said.message);
    // What was never written anywhere is given up.
    scene.delete("shop", "shop").await;
    scene.gone("shop", "shop").await;
    scene.is_bare().await;
    // ACM, which never sees a proof here, is waited for by the name of the record.
    scene.ask_for("shop", "shop", json!({"zoneId": there, "hostname": "shop.lab.test"})).await;
    let words = [".shop.lab.test CNAME _", ".acm-validations.aws"];
    eventually("the record is named that ACM has to see", || async {
        let status = scene.requests("shop").get("shop").await.unwrap().status.unwrap_or_default();
        let said = conditions::find(&status.conditions, ConditionType::CertificateIssued)?;
        let is_said =
            said.reason == "PendingIssuance" && words.iter().all(|word| said.message.contains(word));
        is_said.then_some(())
    })
    .await;
    operator.stop().await;
}

/// Settings that say Route 53 and ACM, as moto plays them, for names in this domain.
fn on_aws(config: &mut Config, moto: &Moto, domain: &str) {
    let (credentials_secret, endpoint) = (Some("aws".to_owned()), Some(moto.endpoint()));
    let region = Some("eu-central-1".to_owned());
    let world = &mut config.hostnames.world;
    world.gateway_class = "aws-alb".into();
    world.domains = vec![domain.to_owned()];
    world.certificates = ZoneCertificates {
        issuer: IssuerKind::Aws,
        credentials_secret: credentials_secret.clone(),
        endpoint: endpoint.clone(),
        region: region.clone(),
        ..ZoneCertificates::default()
    };
    world.dns = ZoneDns {
        provider: DnsProviderKind::Aws,
        credentials_secret,
        endpoint,
        region,
        ..ZoneDns::default()
    };
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slip_in_the_id_of_a_zone_holds_nothing_and_what_was_written_is_removed_where_it_is() {
    let Some(moto) = Moto::start(1) else { return };
    let scene = Scene::new().await;
    scene.aws_classes().await;
    // What may be asked for is a part of the zone.
    let (zone, other) = (hosted_zone(&moto, "lab.test"), hosted_zone(&moto, "other.test"));
    scene.credentials("aws", json!({"accessKeyId": "slip", "secretAccessKey": "test"})).await;
    let balancers = tokio::spawn(balance(scene.client()));
    let operator = scene.usual_operator(|config| on_aws(config, &moto, "apps.lab.test"));
    scene.namespace("shop").await;
    for (name, id, reason) in [
        ("shop", "Z0NOSUCHZONE", "ZoneNotFound"),
        ("gone", "Z0NOSUCHZONE", "ZoneNotFound"),
        ("other", other.as_str(), "InvalidSpec"),
    ] {
        let hostname = format!("{name}.apps.lab.test");
        scene.ask_for("shop", name, json!({"zoneId": id, "hostname": hostname})).await;
        scene.says(("shop", name), (ConditionType::DnsValidated, "False", reason)).await;
    }
    for name in ["gone", "other"] {
        scene.delete("shop", name).await;
        scene.gone("shop", name).await;
    }
    scene.change("shop", "shop", json!({"zoneId": zone})).await;
    scene.ready("shop", "shop").await;
    let claims = Api::<DomainClaim>::all(scene.client());
    let claim = eventually("the claim in the zone that there is not is gone", || async {
        let mut all = claims.list(&ListParams::default()).await.unwrap().items;
        if all.len() == 1 { Ok(all.remove(0)) } else { Err(format!("{all:#?}")) }
    })
    .await;
    // It says where its records are, whatever the settings say by the time that they go.
    let spec = claim.spec;
    assert_eq!((spec.zone_id.as_str(), spec.domain.as_deref()), (zone.as_str(), Some("apps.lab.test")));
    assert_eq!(spec.dns.unwrap().provider, DnsProviderKind::Aws);
    let (records, certificates) = counted(&moto, &zone, "lab.test");
    assert!(records > 0 && certificates == 1, "{records} records, {certificates} certificates");
    operator.stop().await;
    scene.delete("shop", "shop").await;
    let operator = scene.usual_operator(|config| {
        on_aws(config, &moto, "elsewhere.test");
        config.hostnames.world.dns = ZoneDns::default();
    });
    scene.gone("shop", "shop").await;
    scene.is_bare().await;
    assert_eq!((counted(&moto, &zone, "lab.test"), counted(&moto, &other, "other.test").0), ((0, 0), 0));
    operator.stop().await;
    balancers.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_counts_when_route_53_serves_it_everywhere() {
    let Some(moto) = Moto::start(1) else { return };
    let scene = Scene::new().await;
    scene.aws_classes().await;
    let zone = scene.aws_zone(&moto, &moto.endpoint(), "lab.test", "late").await;
    let operator = scene.usual_operator(|_| {});
    scene.namespace("shop").await;
    scene.ask_for("shop", "shop", json!({"zoneId": zone, "hostname": "shop.lab.test"})).await;
    scene.says(("shop", "shop"), (ConditionType::CertificateIssued, "True", "Issued")).await;
    // No load balancer, no record so far.
    moto.lag();
    let balancers = tokio::spawn(balance(scene.client()));
    let waits = async |kind: ConditionType, reason: &str| {
        eventually(&format!("{kind} waits for a change"), || async {
            let status = scene.requests("shop").get("shop").await.unwrap().status.unwrap_or_default();
            let said = conditions::find(&status.conditions, kind).ok_or("it says nothing")?;
            let is_said = said.reason == reason && said.message.contains("everywhere (change C");
            if is_said { Ok(()) } else { Err(format!("{} {}", said.reason, said.message)) }
        })
        .await;
    };
    waits(ConditionType::DnsAliasReady, "Progressing").await;
    operator.looked("hostnames", 3).await;
    waits(ConditionType::DnsAliasReady, "Progressing").await;
    moto.catch_up();
    scene.ready("shop", "shop").await;
    assert!(moto.asked("GetChange", Some("late")) > 0);

    // A name that may still lead somewhere stays its holder's.
    moto.lag();
    scene.delete("shop", "shop").await;
    waits(ConditionType::Deleting, "DeletionInProgress").await;
    operator.looked("hostnames", 3).await;
    waits(ConditionType::Deleting, "DeletionInProgress").await;
    assert_eq!(scene.claims().await.len(), 1);
    moto.catch_up();
    scene.gone("shop", "shop").await;
    scene.is_bare().await;
    assert_eq!(counted(&moto, &zone, "lab.test"), (0, 0));
    operator.stop().await;
    balancers.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_names_of_one_zone_take_few_calls_to_route_53() {
    const NAMES: usize = 60;
    // Long enough for every proof to be written before its certificate is there.
    let Some(moto) = Moto::start(5) else { return };
    let scene = Scene::new().await;
    scene.aws_classes().await;
    let zone = scene.aws_zone(&moto, &moto.endpoint(), "lab.test", "many").await;
    let balancers = tokio::spawn(balance(scene.client()));
    let operator = scene.usual_operator(|config| config.hostnames.sweep = std::time::Duration::from_mins(10));
    scene.namespace("shop").await;
    let asked = || {
        let actions = ["GetHostedZone", "ListResourceRecordSets", "ChangeResourceRecordSets", "GetChange"];
        actions.map(|action| moto.asked(action, Some("many")))
    };
    let began = Instant::now();
    let each = stream::iter(0..NAMES);
    each.for_each_concurrent(8, |number| {
        let (scene, name) = (&scene, format!("n{number}"));
        let spec = json!({"zoneId": zone, "hostname": format!("{name}.lab.test")});
        async move { scene.ask_for("shop", &name, spec).await }
    })
    .await;
    let requests = scene.requests("shop");
    let is_ready = |request: &&GatewayHostnameRequest| {
        let conditions = request.status.as_ref().map(|status| status.conditions.as_slice());
        let ready = conditions::find(conditions.unwrap_or_default(), ConditionType::Ready);
        ready.is_some_and(|one| one.status == "True")
    };
    eventually("all are ready", || async {
        let all = requests.list(&ListParams::default()).await.unwrap().items;
        let ready = all.iter().filter(is_ready).count();
        if ready == NAMES { Ok(()) } else { Err(format!("{ready} of {NAMES}")) }
    })
    .await;
    let made = asked();
    println!(
        "{NAMES} names ready after {:.1} s; zone, list, change, status: {made:?}",
        began.elapsed().as_secs_f64()
    );
    requests.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    eventually("all are gone", || async {
        requests.list(&ListParams::default()).await.unwrap().items.is_empty()
    })
    .await;
    let all = asked();
    println!("and gone after {:.1} s: {all:?}", began.elapsed().as_secs_f64());
    assert_eq!(counted(&moto, &zone, "lab.test"), (0, 0));
    // One by one it would be a look and a change of each proof and each record, when they come and when they go.
    let total: usize = all.iter().sum();
    assert!(made[2] >= 2 && total <= NAMES / 2, "{total} calls for {NAMES} names");
    operator.stop().await;
    balancers.abort();
}
