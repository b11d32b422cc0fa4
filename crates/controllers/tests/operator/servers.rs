//! DNSServers and DHCPServers: what the operator makes of them, and what it says.

use causeway_api::{DHCPServer, DNSServer, conditions, names};
use causeway_testkit::eventually;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace, PersistentVolumeClaim, Pod, Service},
    networking::v1::NetworkPolicy,
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::cluster::Cluster;

fn dhcp(name: &str, server: u8, first: u8, last: u8) -> DHCPServer {
    serde_json::from_value(json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "DHCPServer", "metadata": { "name": name },
        "spec": {
            "networkConfig": {
                "cidr": "192.168.100.0/23", "gateway": "192.168.100.1",
                "serverIP": format!("192.168.100.{server}"), "networkAttachmentName": "vlan",
            },
            "leaseConfig": {
                "rangeStart": format!("192.168.100.{first}"), "rangeEnd": format!("192.168.100.{last}"),
            },
            "clients": "Reserved",
        },
    }))
    .unwrap()
}

/// What a condition of a DHCPServer says: status, reason and message.
async fn said(cluster: &Cluster, name: &str, kind: conditions::ConditionType) -> Option<String> {
    let found = cluster.api::<DHCPServer>().get(name).await.unwrap().status?;
    let condition = conditions::find(&found.conditions, kind)?;
    Some(format!("{} {}: {}", condition.status, condition.reason, condition.message))
}

#[tokio::test]
async fn a_dhcp_server_becomes_a_pod_with_leases_that_stay_and_rights_by_name() {
    let cluster = Cluster::start().await;
    let operator = cluster.whole();
    cluster.api::<DHCPServer>().create(&PostParams::default(), &dhcp("lab", 2, 50, 99)).await.unwrap();
    let deployment = eventually("the Deployment is there", || async {
        cluster.api::<Deployment>().get_opt("lab").await.unwrap()
    })
    .await;
    let spec = serde_json::to_value(deployment.spec.unwrap()).unwrap();
    assert_eq!(spec["strategy"]["type"], "Recreate");
    let pod = &spec["template"];
    let networks = pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"].as_str().unwrap();
    assert_eq!(networks, r#"[{"name":"vlan","namespace":"default","ips":["192.168.100.2/23"]}]"#);
    let container = &pod["spec"]["containers"][0];
    let args: Vec<&str> = container["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(args[..5], ["dhcp", "--namespace", "default", "--server-name", "lab"]);
    let security = &container["securityContext"];
    assert_eq!(security["capabilities"], json!({ "add": ["NET_BIND_SERVICE"], "drop": ["ALL"] }));
    assert_eq!(pod["spec"]["securityContext"]["runAsNonRoot"], true);
    assert!(cluster.exists::<PersistentVolumeClaim>("lab-dhcp-leases").await);
    assert!(cluster.exists::<ConfigMap>("lab-dhcp-names").await);
    assert!(cluster.exists::<NetworkPolicy>("lab-dhcp").await);
    assert!(!cluster.exists::<Service>("lab").await, "nobody asks it on the pod network");
    let role = cluster.api::<Role>().get("lab-dhcp").await.unwrap();
    assert!(role.rules.unwrap().iter().all(|rule| rule.resource_names.is_some()), "all by name");

    use conditions::ConditionType::{ConfigurationValid, NetworkAttached, Ready};
    eventually("the network is missed", || async {
        said(&cluster, "lab", NetworkAttached)
            .await?
            .starts_with("False NetworkAttachmentNotFound")
            .then_some(())
    })
    .await;

    // What makes no sense is said, and what runs stays as it is.
    let bad = json!({ "spec": { "options": [{ "code": 26, "value": "big" }], "image": "causeway.dev/causeway:9" } });
    let params = PatchParams::default();
    cluster.api::<DHCPServer>().patch("lab", &params, &Patch::Merge(&bad)).await.unwrap();
    eventually("the field is named", || async {
        said(&cluster, "lab", ConfigurationValid)
            .await?
            .contains("spec.options[0].value: `big`")
            .then_some(())
    })
    .await;
    let after = cluster.api::<Deployment>().get("lab").await.unwrap();
    assert_eq!(after.metadata.generation, deployment.metadata.generation);
    let good = json!({ "spec": { "options": null, "image": null } });
    cluster.api::<DHCPServer>().patch("lab", &params, &Patch::Merge(&good)).await.unwrap();

    // Another on the same network can't have its addresses.
    cluster.api::<DHCPServer>().create(&PostParams::default(), &dhcp("next", 3, 99, 120)).await.unwrap();
    eventually("the conflict is said", || async {
        let said = said(&cluster, "next", Ready).await?;
        (said.contains("spec.leaseConfig.rangeStart") && said.contains("DHCPServer default/lab"))
            .then_some(())
    })
    .await;
    assert!(!cluster.exists::<Deployment>("next").await);
    let beside = json!({ "spec": { "leaseConfig": { "rangeStart": "192.168.100.100" } } });
    cluster.api::<DHCPServer>().patch("next", &params, &Patch::Merge(&beside)).await.unwrap();
    eventually("it is made", || async { cluster.exists::<Deployment>("next").await }).await;

    // A second replica has an address and leases of its own, and the first is not touched for it.
    let before = cluster.api::<Deployment>().get("next").await.unwrap();
    let two = json!({ "spec": {
        "replicas": 2, "networkConfig": { "additionalServerIPs": ["192.168.100.4"] },
    } });
    cluster.api::<DHCPServer>().patch("next", &params, &Patch::Merge(&two)).await.unwrap();
    let second = eventually("the second is made", || async {
        cluster.api::<Deployment>().get_opt("next-2").await.unwrap()
    })
    .await;
    let text = serde_json::to_string(&second).unwrap();
    for part in ["192.168.100.4/23", "next-dhcp-2-leases", "--replica"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(cluster.exists::<PersistentVolumeClaim>("next-dhcp-2-leases").await);
    let after = cluster.api::<Deployment>().get("next").await.unwrap();
    assert_eq!(after.metadata.generation, before.metadata.generation);

    // The names of its clients go with it.
    let names = || async { cluster.api::<ConfigMap>().get("next-dhcp-names").await.unwrap().data };
    let written = json!({ "data": { "1": "one 192.168.100.101\n", "2": "two 192.168.100.102\n" } });
    eventually("a second may write", || async { names().await.is_none() }).await;
    cluster.api::<ConfigMap>().patch("next-dhcp-names", &params, &Patch::Merge(&written)).await.unwrap();
    let one = json!({ "spec": { "replicas": 1 } });
    cluster.api::<DHCPServer>().patch("next", &params, &Patch::Merge(&one)).await.unwrap();
    eventually("the second's names are gone", || async {
        let data = names().await?;
        (data["2"].is_empty() && data["1"].starts_with("one")).then_some(())
    })
    .await;
    operator.stop().await;
}

#[tokio::test]
async fn nobody_keeps_an_owner_from_his_network() {
    let cluster = Cluster::start().await;
    let operator = cluster.whole();
    let params = PatchParams::default();
    // Another namespace asks for all of the network, without consent, and has a pod that says it has an address of it.
    let far = json!({ "metadata": { "name": "far" } });
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    namespaces.create(&PostParams::default(), &serde_json::from_value(far).unwrap()).await.unwrap();
    let mut all = dhcp("all", 2, 3, 254);
    all.spec.network_config.network_attachment_namespace = Some("default".into());
    let servers: Api<DHCPServer> = Api::namespaced(cluster.client.clone(), "far");
    servers.create(&PostParams::default(), &all).await.unwrap();
    eventually("it has no consent", || async {
        let status = servers.get("all").await.unwrap().status?;
        let ready = conditions::find(&status.conditions, conditions::ConditionType::Ready)?;
        (ready.reason == "RefNotPermitted").then_some(())
    })
    .await;
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {
            "name": "squatter", "labels": { "app.kubernetes.io/managed-by": "causeway" },
            "annotations": {
                "k8s.v1.cni.cncf.io/networks": r#"[{"name":"vlan","namespace":"default","ips":["192.168.100.2/23"]}]"#,
            },
        },
        "spec": { "containers": [{ "name": "c", "image": "nothing" }] },
    }))
    .unwrap();
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), "far");
    pods.create(&PostParams::default(), &pod).await.unwrap();
    cluster.api::<DHCPServer>().create(&PostParams::default(), &dhcp("lab", 2, 50, 99)).await.unwrap();
    eventually("the owner has his server", || async { cluster.exists::<Deployment>("lab").await }).await;

    // What somebody gives up is had by who waits for it.
    cluster.api::<DHCPServer>().create(&PostParams::default(), &dhcp("next", 3, 90, 120)).await.unwrap();
    eventually("the conflict is said", || async {
        let said = said(&cluster, "next", conditions::ConditionType::Ready).await?;
        said.contains("DHCPServer default/lab").then_some(())
    })
    .await;
    let shorter = json!({ "spec": { "leaseConfig": { "rangeEnd": "192.168.100.80" } } });
    cluster.api::<DHCPServer>().patch("lab", &params, &Patch::Merge(&shorter)).await.unwrap();
    eventually("the other is made", || async { cluster.exists::<Deployment>("next").await }).await;
    let share = |name: &'static str| {
        let maps = cluster.api::<ConfigMap>();
        async move { maps.get(name).await.unwrap().data?.remove("share") }
    };
    let (lab, next) = (share("lab-dhcp-config").await.unwrap(), share("next-dhcp-config").await.unwrap());
    assert!(lab.contains("192.168.100.50-192.168.100.80"), "{lab}");
    assert!(next.contains("192.168.100.90-192.168.100.120"), "{next}");
    operator.stop().await;
}

#[tokio::test]
async fn virtual_machines_are_known_once_somebody_has_defined_them() {
    let cluster = Cluster::start().await;
    let operator = cluster.whole();
    let mut server = dhcp("lab", 2, 50, 99);
    server.spec.clients = causeway_api::ClientSource::VirtualMachines;
    cluster.api::<DHCPServer>().create(&PostParams::default(), &server).await.unwrap();
    let says = |words: &'static str| {
        let cluster = &cluster;
        eventually(words, move || async move {
            let said = said(cluster, "lab", conditions::ConditionType::ClientsKnown).await?;
            said.contains(words).then_some(())
        })
    };
    says("install KubeVirt").await;
    let anything = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": { "name": "virtualmachineinstances.kubevirt.io" },
        "spec": {
            "group": "kubevirt.io", "scope": "Namespaced",
            "names": { "kind": "VirtualMachineInstance", "plural": "virtualmachineinstances" },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": anything },
            }],
        },
    }))
    .unwrap();
    Api::all(cluster.client.clone()).create(&PostParams::default(), &definition).await.unwrap();
    says("0 cards of virtual machines on default/vlan").await;
    operator.stop().await;
}

#[tokio::test]
async fn on_openshift_the_pods_account_may_choose_its_user_and_no_other_may() {
    let cluster = Cluster::start().await;
    let operator = cluster.on_openshift();
    cluster.api::<DHCPServer>().create(&PostParams::default(), &dhcp("lab", 2, 50, 99)).await.unwrap();
    eventually("the right is missed", || async {
        let said = said(&cluster, "lab", conditions::ConditionType::Ready).await?;
        said.contains("lab-dhcp-nonroot-scc").then_some(())
    })
    .await;
    let file = std::fs::read_to_string(causeway_testkit::deploy("operator-openshift.yaml")).unwrap();
    let objects = file.split("\n---\n").map(|text| serde_saphyr::from_str::<Value>(text).unwrap());
    let part = |object: &Value| object["metadata"]["labels"][names::LABEL_PART] == "openshift";
    for object in objects.filter(part) {
        let params = PostParams::default();
        let client = cluster.client.clone();
        if object["kind"] == "ClusterRole" {
            let role: ClusterRole = serde_json::from_value(object).unwrap();
            Api::all(client).create(&params, &role).await.unwrap();
        } else {
            let binding: ClusterRoleBinding = serde_json::from_value(object).unwrap();
            Api::all(client).create(&params, &binding).await.unwrap();
        }
    }
    let binding = eventually("the binding is there", || async {
        cluster.api::<RoleBinding>().get_opt("lab-dhcp-nonroot-scc").await.unwrap()
    })
    .await;
    assert_eq!(binding.role_ref.name, "system:openshift:scc:nonroot-v2");
    let [subject] = &binding.subjects.unwrap()[..] else { panic!("one account") };
    let subject = (subject.kind.as_str(), subject.namespace.as_deref(), subject.name.as_str());
    assert_eq!(subject, ("ServiceAccount", Some("default"), "lab-dhcp"));
    let pod = cluster.api::<Deployment>().get("lab").await.unwrap().spec.unwrap().template.spec.unwrap();
    assert_eq!(pod.service_account_name.as_deref(), Some("lab-dhcp"));
    operator.stop().await;
}

#[tokio::test]
async fn a_dns_server_follows_the_service_that_pods_are_sent_to() {
    let cluster = Cluster::start().await;
    let operator = cluster.whole();
    let server: DNSServer = serde_json::from_value(json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "DNSServer", "metadata": { "name": "names" },
        "spec": {
            "networkConfig": { "serverIP": "192.168.100.3/24", "internalProxyIP": "front" },
            "hostedClusterDomain": "lab.example.com", "leaseNamesOf": "lab",
        },
    }))
    .unwrap();
    cluster.api::<DNSServer>().create(&PostParams::default(), &server).await.unwrap();
    let said = || async {
        let found = cluster.api::<DNSServer>().get("names").await.unwrap().status?;
        Some(conditions::find(&found.conditions, conditions::ConditionType::Ready)?.message.clone())
    };
    eventually("the Service is missed", || async {
        said().await?.contains("there is no Service default/front: create it").then_some(())
    })
    .await;
    let service = |address: &str| -> Service {
        let spec = json!({ "clusterIP": address, "ports": [{ "port": 443 }] });
        serde_json::from_value(json!({ "metadata": { "name": "front" }, "spec": spec })).unwrap()
    };
    let address = |address: &'static str| {
        let cluster = &cluster;
        eventually("pods are told of the address", move || async move {
            let map = cluster.api::<ConfigMap>().get_opt("names-dns-config").await.unwrap()?;
            (map.data?.get("internalAddresses")? == address).then_some(())
        })
    };
    let services = cluster.api::<Service>();
    services.create(&PostParams::default(), &service("127.96.0.77")).await.unwrap();
    address("127.96.0.77").await;
    services.delete("front", &kube::api::DeleteParams::default()).await.unwrap();
    services.create(&PostParams::default(), &service("127.96.0.78")).await.unwrap();
    address("127.96.0.78").await;

    // Also while a newer spec makes no sense: the one before runs on, with the Service that it names.
    let taken = json!({ "status": { "replicas": [{ "name": "names-x", "serving": true, "observedGeneration": 1 }] } });
    let params = PatchParams::default();
    let objects = cluster.api::<DNSServer>();
    objects.patch_status("names", &params, &Patch::Merge(&taken)).await.unwrap();
    eventually("the spec is kept", || async {
        let map = cluster.api::<ConfigMap>().get("names-dns-config").await.unwrap();
        map.data?.contains_key("accepted.json").then_some(())
    })
    .await;
    let bad = json!({ "spec": { "upstreamDNS": ["192.168.100.3"], "networkConfig": { "internalProxyIP": "other" } } });
    objects.patch("names", &params, &Patch::Merge(&bad)).await.unwrap();
    eventually("the field is named", || async {
        said().await?.contains("spec.upstreamDNS[0]").then_some(())
    })
    .await;
    services.delete("front", &kube::api::DeleteParams::default()).await.unwrap();
    services.create(&PostParams::default(), &service("127.96.0.79")).await.unwrap();
    address("127.96.0.79").await;

    let own = eventually("it has a Service of its own", || async {
        cluster.api::<Service>().get_opt("names").await.unwrap()
    })
    .await;
    let spec = own.spec.unwrap();
    let selector = spec.selector.unwrap();
    assert_eq!(selector.get("causeway.dev/owner-name").map(String::as_str), Some("names"));
    assert_eq!(spec.ports.unwrap().len(), 2);
    let role = cluster.api::<Role>().get("names-dns").await.unwrap();
    let maps = role.rules.unwrap().into_iter().find(|rule| rule.resources == Some(vec!["configmaps".into()]));
    let names = maps.unwrap().resource_names.unwrap();
    assert_eq!(names, ["names-dns-config", "lab-dhcp-names"]);
    operator.stop().await;
}
