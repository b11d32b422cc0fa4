//! Networks: made, refused, found by label, and containers that reach each other on them.

use std::collections::BTreeMap;

use causeway_containers::{Attachment, ContainerSpec, ErrorKind, NetworkSpec};
use causeway_testkit::eventually;

use crate::{Bed, unique};

mod runs {
    crate::on_both!(
        makes_a_network_with_both_families,
        refuses_a_second_network_of_the_name,
        one_of_many_makers_wins,
        containers_reach_each_other_by_alias,
        a_network_in_use_stays,
    );
}

async fn makes_a_network_with_both_families(bed: &Bed) {
    let name = unique("six");
    let labels = BTreeMap::from([("test".to_owned(), name.clone())]);
    let spec = NetworkSpec { name: name.clone(), ipv6: true, labels, ..NetworkSpec::default() };
    let made = bed.runtime.create_network(&spec).await.unwrap();
    assert!(made.ipv6);
    assert!(made.subnets.iter().any(|subnet| subnet.range.contains(':')), "{made:?}");
    assert!(
        made.subnets.iter().any(|subnet| subnet.range.contains('.') && subnet.gateway.is_some()),
        "{made:?}"
    );
    let found = bed.runtime.networks(&[("test", &name)]).await.unwrap();
    assert_eq!(found, std::slice::from_ref(&made));
    assert_eq!(bed.runtime.network(&made.id).await.unwrap().name, name);
    bed.runtime.remove_network(&made.id).await.unwrap();
    bed.runtime.remove_network(&made.id).await.expect("removing twice is fine");
    assert_eq!(bed.runtime.network(&name).await.unwrap_err().kind(), ErrorKind::NotFound);
}

async fn refuses_a_second_network_of_the_name(bed: &Bed) {
    let spec = NetworkSpec { name: unique("twice"), ..NetworkSpec::default() };
    bed.runtime.create_network(&spec).await.unwrap();
    assert_eq!(bed.runtime.create_network(&spec).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    bed.runtime.remove_network(&spec.name).await.unwrap();
}

async fn one_of_many_makers_wins(bed: &Bed) {
    let spec = NetworkSpec { name: unique("race"), ..NetworkSpec::default() };
    let made = futures::future::join_all((0..4).map(|_| bed.runtime.create_network(&spec))).await;
    let lost: Vec<_> = made.iter().filter_map(|made| made.as_ref().err()).collect();
    assert_eq!(lost.len(), 3, "{lost:?}");
    assert!(lost.iter().all(|error| error.kind() == ErrorKind::AlreadyExists), "{lost:?}");
    bed.runtime.network(&spec.name).await.expect("the name means one network");
    bed.runtime.remove_network(&spec.name).await.unwrap();
}

async fn containers_reach_each_other_by_alias(bed: &Bed) {
    let (network, other) = (unique("talk"), unique("beside"));
    for name in [&network, &other] {
        bed.runtime
            .create_network(&NetworkSpec { name: name.clone(), ..NetworkSpec::default() })
            .await
            .unwrap();
    }
    let on = |aliases: &[&str]| {
        [&network, &other].map(|network| Attachment {
            network: network.clone(),
            aliases: aliases.iter().map(|alias| (*alias).to_owned()).collect(),
        })
    };
    let server =
        ContainerSpec { networks: on(&["first", "second"]).to_vec(), ..bed.spec(&unique("server"), "echo") };
    let server = bed.runtime.create(&server).await.unwrap();
    bed.runtime.start(&server).await.unwrap();
    let found = bed.runtime.container(&server).await.unwrap();
    assert!(found.networks[&network].ipv4.is_some() && found.networks[&other].ipv4.is_some(), "{found:?}");
    for (network, alias) in [(0, "first"), (0, "second"), (1, "second")] {
        let mut client = bed.spec(&unique("client"), "dial");
        client.networks = vec![on(&[])[network].clone()];
        client.env.push(("TARGET".to_owned(), format!("{alias}:8080")));
        let client = bed.runtime.create(&client).await.unwrap();
        bed.runtime.start(&client).await.unwrap();
        assert_eq!(bed.runtime.wait(&client).await.unwrap(), 0, "{alias}");
        bed.runtime.remove(&client).await.unwrap();
    }
    bed.runtime.remove(&server).await.unwrap();
    for name in [&network, &other] {
        bed.runtime.remove_network(name).await.unwrap();
    }
}

async fn a_network_in_use_stays(bed: &Bed) {
    let spec = NetworkSpec { name: unique("used"), ..NetworkSpec::default() };
    let network = bed.runtime.create_network(&spec).await.unwrap();
    let networks = vec![Attachment { network: network.id.clone(), aliases: vec![] }];
    let id =
        bed.runtime.create(&ContainerSpec { networks, ..bed.spec(&unique("user"), "sleep") }).await.unwrap();
    bed.runtime.start(&id).await.unwrap();
    let attached = eventually("the container shows on its network", async || {
        bed.runtime.network(&spec.name).await.unwrap().containers.pop()
    })
    .await;
    assert_eq!(attached.id, id);
    assert!(attached.ipv4.is_some());
    for name in [&spec.name, &network.id] {
        assert_eq!(bed.runtime.remove_network(name).await.unwrap_err().kind(), ErrorKind::InUse, "{name}");
    }
    bed.runtime.remove(&id).await.unwrap();
    bed.runtime.remove_network(&spec.name).await.unwrap();
}
