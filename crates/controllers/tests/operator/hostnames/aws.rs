//! Certificates of ACM and records of Route 53, as moto plays them, for load balancers that the test plays.

use causeway_api::{conditions::ConditionType, names};
use causeway_testkit::{eventually, moto::Moto};
use kube::api::ListParams;
use serde_json::json;

use super::{
    peers::{BALANCER, balance, counted},
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
    scene.aws_zone(&moto, &moto.endpoint(), "lab.test", "gone").await;
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
    operator.stop().await;
}
