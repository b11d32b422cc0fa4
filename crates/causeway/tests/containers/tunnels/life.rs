//! The life of a tunnel proxy, from its creation to its end.

use causeway_api::{TunnelProxyState, TunnelState, conditions::ConditionType, names};
use causeway_containers::{Kind, fake::Operation, labels};
use causeway_testkit::eventually;
use kube::ResourceExt;
use serde_json::json;

use super::servers::{ask, connections_to};
use super::world::{NETWORK, World, answers, is_running, is_silent, named, port, to, tunnel};
use crate::testbed::{BOTH, INSTANCE};

#[tokio::test]
async fn a_proxy_promises_to_clean_up_and_goes_when_it_has() {
    for kind in BOTH {
        let world = World::without_network(kind).await;
        world.create_proxy("lab", &[]).await;
        world.condition("lab", ConditionType::Ready, "False", "NotFound").await;
        let finalizers = world.proxies().get("lab").await.unwrap().finalizers().to_vec();
        assert_eq!(finalizers, [names::FINALIZER_TUNNEL_PROXY]);
        world.delete_proxy("lab").await;
        world.proxy_gone("lab").await;
        world.end().await;
    }
}

#[tokio::test]
async fn a_proxy_waits_for_its_network() {
    for kind in BOTH {
        let world = World::without_network(kind).await;
        world.create_proxy("lab", &[]).await;
        let message = world.condition("lab", ConditionType::Ready, "False", "NotFound").await;
        assert!(message.contains("default/blue") && message.contains("create it"), "{message}");
        let status = world.status("lab", "Pending", |now| now.state == Some(TunnelProxyState::Pending)).await;
        assert_eq!((status.client_proxy_container_id, status.message), (None, Some(message)));

        world.bed.create(NETWORK, json!({ "networkName": NETWORK, "mode": "existing" })).await;
        world.condition("lab", ConditionType::LinkUp, "False", "NotFound").await;
        world.bed.fake.add_network(NETWORK);
        let status = world.running("lab").await;
        assert!(status.client_proxy_container_image.unwrap().contains("causeway-tunnel:"));
        world.ready("lab").await;
        world.end().await;
    }
}

#[tokio::test]
async fn a_running_proxy_says_all_there_is_to_know() {
    for kind in BOTH {
        let world = World::start(kind).await;
        let aliases = ["db", "web.lab", "x-1"];
        let proxy = world.create_proxy_with("lab", &[], json!({ "aliases": aliases })).await;
        let status = world.running("lab").await;
        let container = world.container(&proxy).unwrap();
        assert_eq!(status.client_proxy_container_id.as_ref(), Some(&container.id));
        assert_eq!(status.client_proxy_container_image.as_ref(), Some(&container.image));
        assert!(container.running);
        assert_eq!(container.networks.keys().collect::<Vec<_>>(), [NETWORK], "on this network alone");
        let mut known = container.networks[NETWORK].clone();
        known.sort();
        assert!(aliases.iter().all(|alias| known.iter().any(|known| known == alias)), "{known:?}");
        for (published, told) in
            [(15049, status.client_proxy_control_port), (15050, status.client_proxy_data_port)]
        {
            assert!(container.ports[&published].ip().is_loopback());
            assert_eq!(Some(i32::from(container.ports[&published].port())), told);
        }
        let label = |key| container.labels.get(key).map(String::as_str);
        assert_eq!(label(labels::OWNER), proxy.metadata.uid.as_deref());
        assert_eq!(label(labels::KIND), Some("ContainerNetworkTunnelProxy"));
        assert_eq!((label(labels::NAME), label(labels::INSTANCE)), (Some("default/lab"), Some(INSTANCE)));
        assert!(label(labels::CREATOR).is_some_and(|creator| !creator.is_empty()));
        assert_eq!(container.command[..2], ["tunnel", "client"]);
        let shown = format!("{:?} {:?} {:?}", container.command, container.env, container.labels);
        assert!(!shown.contains("BEGIN") && !shown.contains("PRIVATE"), "no key is to be seen: {shown}");
        let identity = container.files.iter().find(|file| file.path.ends_with("identity.pem")).unwrap();
        assert_eq!(identity.mode & 0o077, 0, "nobody else may read the key");
        let process = status.server_proxy_process_id.unwrap();
        assert_ne!(process, i64::from(std::process::id()), "the host end is a process of its own");
        assert!(is_running(process));
        assert!(status.server_proxy_startup_timestamp.is_some());
        let object = world.proxies().get("lab").await.unwrap();
        assert_eq!(status.observed_generation, object.metadata.generation);
        let journal = std::fs::read_to_string(status.server_proxy_std_out_file.unwrap()).unwrap();
        for said in ["container runtime", "building", "Step 1", "creating container", "the link is up"] {
            assert!(journal.contains(said), "{said:?} is not in:\n{journal}");
        }
        assert_eq!(world.bed.fake.count(Operation::Pull), 0, "nothing is pulled");
        world.end().await;
    }
}

#[tokio::test]
async fn the_end_of_a_proxy_leaves_nothing() {
    for kind in BOTH {
        let world = World::start(kind).await;
        let _web = world.server("web").await;
        let proxy = world.create_proxy("lab", &[to("web")]).await;
        let status = world.ready("lab").await;
        let through = port(&tunnel(&status, "web"));
        assert_eq!(ask(through).await.unwrap(), "web");
        world.delete_proxy("lab").await;
        world.proxy_gone("lab").await;
        assert!(world.container(&proxy).is_none());
        assert!(world.slices_of("web-in").await.is_empty());
        is_silent(through).await;
        let control = u16::try_from(status.client_proxy_control_port.unwrap()).unwrap();
        assert_eq!(connections_to(control), 0, "the host end does not dial any more");
        assert!(!is_running(status.server_proxy_process_id.unwrap()), "the host end is gone");
        let directory = world.bed.directory().join("default/lab");
        let mut left: Vec<_> =
            std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["journal.log", "ledger.json"], "keys, plan and process went with it");
        // The network can go now.
        world.bed.delete(NETWORK).await;
        world.bed.gone(NETWORK).await;
        world.end().await;
    }
}

#[tokio::test]
async fn a_tunnel_carries_traffic_and_says_where() {
    for kind in BOTH {
        let world = World::start(kind).await;
        let web = world.server("web").await;
        world.create_proxy("lab", &[to("web")]).await;
        let status = world.ready("lab").await;
        let web_tunnel = tunnel(&status, "web");
        assert!(web_tunnel.tunnel_id > 0 && web_tunnel.timestamp.is_some());
        assert_eq!(web_tunnel.error_message, None);
        let object = world.proxies().get("lab").await.unwrap();
        let container = world.bed.network(NETWORK).await.unwrap().containers.pop().unwrap();
        let address = container.ipv4.unwrap().to_string();
        assert_eq!(web_tunnel.client_proxy_addresses, [address.as_str()]);
        let slices = world.slices_of("web-in").await;
        assert_eq!((slices.len(), &slices[0].endpoints[0].addresses), (1, &vec![address]));
        assert_eq!(slices[0].ports.as_ref().unwrap()[0].port, web_tunnel.client_proxy_port);
        assert_eq!(slices[0].annotations()[names::ANNOTATION_TUNNEL_ID], web_tunnel.tunnel_id.to_string());
        assert_eq!(slices[0].owner_references()[0].uid, object.uid().unwrap());
        assert_ne!(port(&web_tunnel), web.port);
        assert_eq!(ask(port(&web_tunnel)).await.unwrap(), "web");
        let of_web = r#"{namespace="default",proxy="lab",tunnel="web"}"#;
        for figure in ["bytes_to_host", "bytes_to_containers"] {
            let series = format!("causeway_tunnel_{figure}_total{of_web} ");
            eventually(&format!("{figure} are counted"), async || {
                let counted =
                    world.bed.metrics().lines().find_map(|line| line.strip_prefix(&series)?.parse().ok());
                counted.is_some_and(|bytes: u64| bytes >= 100_000)
            })
            .await;
        }
        let after = world.proxies().get("lab").await.unwrap();
        assert_eq!(
            after.resource_version(),
            object.resource_version(),
            "figures are no change of the object"
        );
        world.bed.told("lab", "TunnelReady").await;
        world.end().await;
    }
}

#[tokio::test]
async fn a_preferred_port_that_is_taken_is_replaced() {
    let world = World::start(Kind::Docker).await;
    let _web = world.server("web").await;
    // Somebody else in the container has the port of the Service.
    let (_taken, wanted) = causeway_testkit::port::taken();
    world.service("web", wanted).await;
    world.create_proxy("lab", &[to("web")]).await;
    let status = world.ready("lab").await;
    let found = port(&tunnel(&status, "web"));
    assert_ne!(found, wanted);
    assert_eq!(ask(found).await.unwrap(), "web");
    world.end().await;
}

#[tokio::test]
async fn a_tunnel_gets_the_port_of_its_service_or_the_one_asked_for() {
    let world = World::start(Kind::Docker).await;
    let _web = world.server("web").await;
    let (usual, asked) = (causeway_testkit::port::free(), causeway_testkit::port::free());
    world.service("web", usual).await;
    let mut fixed = named("fixed", "web");
    fixed["clientPort"] = json!(asked);
    world.create_proxy("lab", &[to("web"), fixed]).await;
    let status = world.ready("lab").await;
    assert_eq!(port(&tunnel(&status, "web")), usual);
    assert_eq!(port(&tunnel(&status, "fixed")), asked);
    world.end().await;
}

#[tokio::test]
async fn a_tunnel_that_fails_harms_no_other() {
    for kind in BOTH {
        let world = World::start(kind).await;
        let _web = world.server("web").await;
        let (taken, wanted) = causeway_testkit::port::taken();
        let mut blocked = named("blocked", "web");
        blocked["clientPort"] = json!(wanted);
        world.create_proxy("lab", &[blocked, to("web")]).await;
        let failed = world.tunnel("lab", "blocked", TunnelState::Failed).await;
        assert!(failed.timestamp.is_some() && failed.error_message.is_some(), "{failed:?}");
        let good = world.tunnel("lab", "web", TunnelState::Ready).await;
        assert_eq!(ask(port(&good)).await.unwrap(), "web");
        world.running("lab").await;
        let message = world.condition("lab", ConditionType::TunnelsReady, "False", "NotReady").await;
        assert!(message.contains("1 of 2") && message.contains("blocked"), "{message}");

        // Whoever had the port gives it back, and nobody has to touch anything.
        drop(taken);
        world.ready("lab").await;
        assert_eq!(ask(wanted).await.unwrap(), "web");
        world.end().await;
    }
}

#[tokio::test]
async fn a_server_that_goes_and_comes_back_takes_its_tunnel_along() {
    for kind in BOTH {
        let world = World::start(kind).await;
        let web = world.server("web").await;
        world.create_proxy("lab", &[to("web")]).await;
        let before = tunnel(&world.ready("lab").await, "web");
        world.endpoint("web", None).await;
        let waiting = world.tunnel("lab", "web", TunnelState::NotReady).await;
        assert!(waiting.error_message.unwrap().contains("no ready endpoint"));
        assert!(waiting.client_proxy_addresses.is_empty());
        let path = world.bed.directory().join("default/lab/journal.log");
        let why = "tunnel web: Service default/web has no ready endpoint";
        eventually("the journal says why", async || std::fs::read_to_string(&path).unwrap().contains(why))
            .await;
        world.no_slices_of("web-in").await;
        is_silent(port(&before)).await;
        world.running("lab").await;

        world.endpoint("web", Some(web.port)).await;
        let after = world.tunnel("lab", "web", TunnelState::Ready).await;
        assert_eq!((after.tunnel_id, after.client_proxy_port), (before.tunnel_id, before.client_proxy_port));
        answers(port(&after), "web").await;

        // The same with the Service itself.
        world.delete_service("web").await;
        let waiting = world.tunnel("lab", "web", TunnelState::NotReady).await;
        assert!(waiting.error_message.unwrap().contains("does not exist"));
        world.service("web", port(&before)).await;
        let again = world.tunnel("lab", "web", TunnelState::Ready).await;
        assert_eq!((again.tunnel_id, again.client_proxy_port), (before.tunnel_id, before.client_proxy_port));
        answers(port(&again), "web").await;
        world.end().await;
    }
}

#[tokio::test]
async fn tunnels_come_and_go_one_by_one() {
    for kind in BOTH {
        let world = World::start(kind).await;
        let mut servers = Vec::new();
        for name in ["a", "b", "c"] {
            servers.push(world.server(name).await);
        }
        world.create_proxy("lab", &[to("c"), to("a"), to("b")]).await;
        let status = world.ready("lab").await;
        let names: Vec<_> = status.tunnel_statuses.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"], "sorted by name");
        for name in names {
            assert_eq!(ask(port(&tunnel(&status, name))).await.unwrap(), name);
        }
        world.set_tunnels("lab", &[to("a"), to("c")]).await;
        let after = world.status("lab", "two tunnels", |now| now.tunnel_statuses.len() == 2).await;
        assert!(after.tunnel_configuration_version > status.tunnel_configuration_version);
        world.no_slices_of("b-in").await;
        is_silent(port(&tunnel(&status, "b"))).await;
        for name in ["a", "c"] {
            assert_eq!(tunnel(&after, name).tunnel_id, tunnel(&status, name).tunnel_id);
            assert_eq!(ask(port(&tunnel(&after, name))).await.unwrap(), name);
        }
        world.set_tunnels("lab", &[to("a"), to("b"), to("c")]).await;
        let again = world.ready("lab").await;
        assert_eq!(port(&tunnel(&again, "b")), port(&tunnel(&status, "b")), "it has its port again");
        answers(port(&tunnel(&again, "b")), "b").await;
        world.end().await;
    }
}
