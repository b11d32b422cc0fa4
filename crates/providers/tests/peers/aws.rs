//! ACM and Route 53, as moto plays them, through Amazon's own clients.

use causeway_providers::aws::{Acm, Keys, Route53, Settings};
use causeway_providers::certificate::{CertificateIssuer as _, Look, Material, Renewal, proof_records};
use causeway_providers::dns::{Change, DnsProvider as _, Progress, Wanted};
use causeway_providers::{Error, Secret};
use causeway_testkit::eventually;
use causeway_testkit::moto::Moto;

use crate::{addresses, apply, behaves, change, found, name, order, settle};

fn settings(moto: &Moto, instance: &str) -> Settings {
    Settings {
        instance: instance.into(),
        region: Some("eu-central-1".into()),
        keys: Some(Keys { id: "test".into(), secret: Secret::new("test".into()) }),
        endpoint: Some(moto.endpoint()),
        ..Settings::default()
    }
}

const BALANCER: &str = "k8s-edge-gw01-1234.eu-central-1.elb.amazonaws.com";

fn balancer() -> Wanted {
    Wanted::Balancer { target: name(BALANCER), hosted_zone: None, ttl: 60 }
}

#[tokio::test]
async fn route_53_does_what_every_provider_does() {
    let Some(moto) = Moto::start(1) else { return };
    moto.python(
        "id = route53.create_hosted_zone(Name='lab.test', CallerReference='1')['HostedZone']['Id']\n\
         record = {'Name': 'foreign.lab.test', 'Type': 'A', 'TTL': 60, 'ResourceRecords': [{'Value': '192.0.2.77'}]}\n\
         route53.change_resource_record_sets(HostedZoneId=id, ChangeBatch={'Changes': [{'Action': 'CREATE', \
         'ResourceRecordSet': record}]})",
    );
    let one = Route53::new(&settings(&moto, "one")).await.unwrap();
    let two = Route53::new(&settings(&moto, "two")).await.unwrap();
    behaves(&one, &two, true).await;
    let zone = one.zone("lab.test").await.unwrap();
    assert_eq!(one.zone(&zone.id).await.unwrap(), zone, "by id as by domain");
    let error = one.zone("Z0NOSUCHZONE").await.unwrap_err();
    assert!(error.to_string().contains("no zone Z0NOSUCHZONE at Route 53"), "{error}");

    // The top of the zone leads to a load balancer, for both families, and by the zone of its region.
    settle(&one, &zone, change("team-a/top", "lab.test", balancer())).await;
    let top = found(&one, &zone, "lab.test").await;
    let alias = format!("alias of {BALANCER} (zone Z215JYRZR1TBD5)");
    assert_eq!(top.to_string(), format!("A {alias}, AAAA {alias}"));
    let unknown = Wanted::Balancer { target: name("lb.example.com"), hosted_zone: None, ttl: 60 };
    let error = apply(&one, &zone, change("team-a/u", "u.lab.test", unknown)).await.unwrap_err();
    assert!(error.to_string().contains("name the hosted zone"), "{error}");

    // Edited by hand: found, and put right.
    moto.python(&format!(
        "target = {{'HostedZoneId': 'Z35SXDOTRQ7X7K', 'DNSName': 'other.us-east-1.elb.amazonaws.com', 'EvaluateTargetHealth': True}}\n\
         route53.change_resource_record_sets(HostedZoneId='{}', ChangeBatch={{'Changes': [{{'Action': 'UPSERT', \
         'ResourceRecordSet': {{'Name': 'lab.test', 'Type': 'A', 'AliasTarget': target}}}}]}})",
        zone.id
    ));
    assert_ne!(found(&one, &zone, "lab.test").await, top);
    settle(&one, &zone, change("team-a/top", "lab.test", balancer())).await;
    assert_eq!(found(&one, &zone, "lab.test").await, top);
    settle(&one, &zone, change("team-a/top", "lab.test", Wanted::Nothing)).await;
    let left = moto.python(&format!(
        "print(len(route53.list_resource_record_sets(HostedZoneId='{}')['ResourceRecordSets']))",
        zone.id
    ));
    assert_eq!(left, "3", "SOA, NS and the foreign record");
}

#[tokio::test]
async fn what_an_earlier_process_wrote_is_confirmed_and_taken_away() {
    let Some(moto) = Moto::start(1) else { return };
    moto.python("route53.create_hosted_zone(Name='lab.test', CallerReference='1')");
    let first = Route53::new(&settings(&moto, "one")).await.unwrap();
    let zone = first.zone("lab.test").await.unwrap();
    let wanted = || change("a/x", "x.lab.test", addresses(&["192.0.2.1"]));
    settle(&first, &zone, wanted()).await;
    settle(&first, &zone, wanted()).await;
    assert_eq!(
        moto.count("POST"),
        2,
        "the zone and the record: what is known to be settled is not written again"
    );
    drop(first);
    // Whoever has stored that it was settled is believed; whoever has not gets it written once more.
    let second = Route53::new(&settings(&moto, "one")).await.unwrap();
    settle(&second, &zone, Change { settled: Some(wanted().want), ..wanted() }).await;
    assert_eq!(moto.count("POST"), 2);
    settle(&second, &zone, wanted()).await;
    assert_eq!(moto.count("POST"), 3);
    drop(second);
    let third = Route53::new(&settings(&moto, "one")).await.unwrap();
    settle(&third, &zone, change("a/x", "x.lab.test", Wanted::Nothing)).await;
    assert!(found(&third, &zone, "x.lab.test").await.is_empty());
}

#[tokio::test]
async fn callers_of_one_moment_share_requests() {
    let Some(moto) = Moto::start(1) else { return };
    moto.python("route53.create_hosted_zone(Name='lab.test', CallerReference='1')");
    let dns = Route53::new(&settings(&moto, "one")).await.unwrap();
    let zone = dns.zone("lab.test").await.unwrap();
    let names: Vec<String> = (0..200).map(|i| format!("n{i}.lab.test")).collect();
    let before = moto.count("HTTP/1.1");
    let ask =
        async |at: &String, want: Wanted| apply(&dns, &zone, change(&format!("team/{at}"), at, want)).await;
    let outcomes =
        futures::future::join_all(names.iter().map(|at| ask(at, addresses(&["192.0.2.1", "2001:db8::1"]))))
            .await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(Progress::Settled))), "{outcomes:?}");
    let asked = moto.count("HTTP/1.1") - before;
    assert!(asked <= 8, "{asked} requests for 200 names");
    let outcomes = futures::future::join_all(names.iter().map(|at| ask(at, Wanted::Nothing))).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(Progress::Settled))), "{outcomes:?}");
    let left = moto.python(&format!(
        "print(len(route53.list_resource_record_sets(HostedZoneId='{}')['ResourceRecordSets']))",
        zone.id
    ));
    assert_eq!(left, "2");
    println!(
        "{asked} requests to write 200 names, {} to write and remove them",
        moto.count("HTTP/1.1") - before
    );
}

#[tokio::test]
async fn certificates_of_acm_are_proven_used_and_deleted() {
    let Some(moto) = Moto::start(5) else { return };
    moto.python("route53.create_hosted_zone(Name='lab.test', CallerReference='1')");
    let dns = Route53::new(&settings(&moto, "one")).await.unwrap();
    let zone = dns.zone("lab.test").await.unwrap();
    let acm = Acm::new(&settings(&moto, "one")).await.unwrap();
    assert!(!acm.wants_key() && acm.name() == "acm eu-central-1");
    let mut order = order("one/uid-1", &["shop.lab.test", "www.shop.lab.test"]);
    order.key = None;
    let arn = acm.request(&order).await.unwrap();
    assert_eq!(acm.request(&order).await.unwrap(), arn, "asked for once");
    // One who was killed before it stored the handle finds it again.
    let acm = Acm::new(&settings(&moto, "one")).await.unwrap();
    assert_eq!(acm.request(&order).await.unwrap(), arn);
    assert_eq!(moto.python("print(len(acm.list_certificates()['CertificateSummaryList']))"), "1");
    order.handle = Some(arn.clone());
    let proofs = eventually("the proofs are named", async || match acm.look(&order).await.unwrap() {
        Look::Pending { proofs, .. } if !proofs.is_empty() => Ok(proofs),
        other => Err(format!("{other:?}")),
    })
    .await;
    assert_eq!(proofs.len(), 2, "{proofs:?}");
    for (name, want) in proof_records(&proofs) {
        settle(&dns, &zone, Change { name, object: "team-a/shop".into(), want, settled: None }).await;
    }
    acm.proofs_served(&order).await.unwrap();
    let certificate = eventually("it is issued", async || match acm.look(&order).await.unwrap() {
        Look::Issued(certificate) => Ok(certificate),
        other => Err(format!("{other:?}")),
    })
    .await;
    assert_eq!(certificate.material, Material::Arn(arn.clone()));
    assert_eq!(certificate.names, order.names.iter().cloned().collect());
    assert_eq!(acm.renewal(&order).await.unwrap(), Renewal::ByIssuer);

    // It can't be removed while a load balancer has it.
    let listener = moto.python(&format!(
        "vpc = ec2.create_vpc(CidrBlock='10.0.0.0/16')['Vpc']['VpcId']\n\
         subnets = [ec2.create_subnet(VpcId=vpc, CidrBlock=f'10.0.{{i}}.0/24', AvailabilityZone=f'eu-central-1{{z}}')['Subnet']['SubnetId'] \
         for i, z in enumerate('ab')]\n\
         lb = elbv2.create_load_balancer(Name='gw-01', Subnets=subnets)['LoadBalancers'][0]['LoadBalancerArn']\n\
         tg = elbv2.create_target_group(Name='tg', Protocol='HTTP', Port=80, VpcId=vpc)['TargetGroups'][0]['TargetGroupArn']\n\
         print(elbv2.create_listener(LoadBalancerArn=lb, Protocol='HTTPS', Port=443, Certificates=[{{'CertificateArn': '{arn}'}}], \
         DefaultActions=[{{'Type': 'forward', 'TargetGroupArn': tg}}])['Listeners'][0]['ListenerArn'])"
    ));
    assert!(listener.contains(":listener/"), "{listener}");
    let used = acm.in_use(&order).await.unwrap();
    if used.is_empty() {
        println!("moto does not tell who uses a certificate");
    } else {
        let Err(Error::InUse { by }) = acm.remove(&order).await else { panic!("it is in use") };
        assert_eq!(by, used);
    }
    // Another order: removed without its handle, by one who never stored it.
    let other = causeway_providers::certificate::Order { serial: 2, handle: None, ..order.clone() };
    let other_arn = acm.request(&other).await.unwrap();
    assert_ne!(other_arn, arn);
    Acm::new(&settings(&moto, "one")).await.unwrap().remove(&other).await.unwrap();
    acm.remove(&other).await.unwrap();
    let gone = causeway_providers::certificate::Order { handle: Some(other_arn), ..other };
    assert_eq!(acm.look(&gone).await.unwrap(), Look::Gone);
    acm.remove(&gone).await.unwrap();
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let Some(moto) = Moto::guarded(3) else { return };
    let keys = moto.python(
        "iam.create_user(UserName='causeway')\n\
         key = iam.create_access_key(UserName='causeway')['AccessKey']\n\
         iam.put_user_policy(UserName='causeway', PolicyName='reads', PolicyDocument='{\"Version\": \"2012-10-17\", \
         \"Statement\": [{\"Effect\": \"Allow\", \"Action\": [\"acm:List*\"], \"Resource\": \"*\"}]}')\n\
         print(key['AccessKeyId'], key['SecretAccessKey'])",
    );
    let (id, secret) = keys.split_once(' ').unwrap();
    let keys = Keys { id: id.into(), secret: Secret::new(secret.into()) };
    let limited = Settings { keys: Some(keys), ..settings(&moto, "one") };
    let acm = Acm::new(&limited).await.unwrap();
    let error = acm.request(&order("one/uid-1", &["shop.lab.test"])).await.unwrap_err();
    let Error::Denied { missing, .. } = &error else { panic!("{error:?}") };
    assert!(missing.contains("acm:RequestCertificate"), "{missing}");
    // Moto lets nobody at Route 53 once it checks, since it reckons other signatures than Amazon's clients.
    let error = Route53::new(&limited).await.unwrap().zone("lab.test").await.unwrap_err();
    assert!(
        matches!(&error, Error::Denied { missing, .. } if missing == "route53:ListHostedZonesByName"),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_service_that_is_away_is_said_so() {
    let keys = Some(Keys { id: "test".into(), secret: Secret::new("test".into()) });
    let settings = Settings {
        instance: "one".into(),
        region: Some("eu-central-1".into()),
        keys,
        // Nobody listens there.
        endpoint: Some("http://127.0.0.1:1".into()),
        ..Settings::default()
    };
    let dns = Route53::new(&settings).await.unwrap();
    let error = dns.zone("lab.test").await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
}
