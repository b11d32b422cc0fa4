//! Addresses on network attachments, as tenants of one cluster meet them: each has one holder, and a network of another
//! namespace is used with its consent only.

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::Kubectl;

use crate::peer::shared;
use crate::tenants::Tenant;

/// A proxy with this network.
fn proxy(name: &str, network: &str) -> String {
    format!(
        "apiVersion: causeway.dev/v1alpha1
kind: ProxyServer
metadata: {{name: {name}}}
spec:
  networkConfig: {{{network}}}
  backends: [{{name: web, hostname: web.test, port: 18443, targetService: web, targetPort: 443, targetNamespace: web}}]
---
"
    )
}

/// Waits until a proxy's Ready is false for this reason, and its message says all of this.
fn refused(kubectl: &Kubectl, name: &str, reason: &str, words: &[&str]) {
    eventually(&format!("{name} is refused for {reason}"), PATIENCE, || {
        let of = |field: &str| {
            kubectl.value(
                &format!("proxyserver/{name}"),
                &format!(".status.conditions[?(@.type=='Ready')].{field}"),
            )
        };
        let (status, found, message) = (of("status"), of("reason"), of("message"));
        let is_said = words.iter().all(|word| message.contains(word));
        if status == "False" && found == reason && is_said {
            Ok(())
        } else {
            Err(format!("{found}: {message}"))
        }
    });
}

fn deployments(kubectl: &Kubectl) -> String {
    kubectl.ok(&["get", "deployments", "-o", "name"])
}

fn claims(kubectl: &Kubectl) -> String {
    let columns =
        "jsonpath={range .items[*]}{.spec.address} {.spec.holder.namespace}/{.spec.holder.name}\n{end}";
    kubectl.ok(&["get", "addressclaims", "-o", columns])
}

#[test]
fn a_foreign_network_needs_consent_and_an_address_has_one_holder() {
    let owner = shared().namespace("address-owner");
    owner.apply(&proxy("http", "serverIP: 127.78.0.1/24, networkAttachmentName: vlan")).ok();
    eventually("the owner has its address", PATIENCE, || claims(&owner) == "127.78.0.1 address-owner/http\n");
    let tenant = Tenant::new("address-tenant");
    let network = |address: &str| {
        format!(
            "serverIP: {address}/24, networkAttachmentName: vlan, networkAttachmentNamespace: address-owner"
        )
    };
    tenant.kubectl.apply(&proxy("mine", &network("127.78.0.2"))).ok();
    let advice = "does not let ProxyServers of namespace address-tenant use its NetworkAttachmentDefinition vlan: create \
                  a ReferenceGrant in address-owner";
    refused(&tenant.kubectl, "mine", "RefNotPermitted", &[advice]);
    assert_eq!(deployments(&tenant.kubectl), "");
    for namespace in ["address-owner", "address-tenant"] {
        let may = tenant.kubectl.run(&["auth", "can-i", "create", "addressclaims", "-n", namespace]);
        assert_eq!(may.stdout, "no\n", "{namespace}");
    }

    let grant = "apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: {name: vlan}
spec:
  from: [{group: causeway.dev, kind: ProxyServer, namespace: address-tenant}]
  to: [{group: k8s.cni.cncf.io, kind: NetworkAttachmentDefinition, name: vlan}]
";
    owner.apply(grant).ok();
    eventually("consent is enough", PATIENCE, || deployments(&tenant.kubectl) == "deployment.apps/mine\n");
    // What somebody else has is not to be had, and the pod with the old address goes.
    tenant.kubectl.apply(&proxy("mine", &network("127.78.0.1"))).ok();
    refused(
        &tenant.kubectl,
        "mine",
        "Conflict",
        &["127.78.0.1 on address-owner/vlan", "ProxyServer address-owner/http"],
    );
    eventually("no pod has it", PATIENCE, || deployments(&tenant.kubectl).is_empty());
    assert_eq!(deployments(&owner), "deployment.apps/http\n");
    eventually("what is not asked for any more is free", PATIENCE, || {
        claims(&owner) == "127.78.0.1 address-owner/http\n"
    });
    // Once it is given up, whoever waits for it has it.
    owner.ok(&["delete", "proxyserver", "http", "--timeout=60s"]);
    eventually("the next one has it", PATIENCE, || claims(&owner) == "127.78.0.1 address-tenant/mine\n");
    eventually("and a pod", PATIENCE, || deployments(&tenant.kubectl) == "deployment.apps/mine\n");
    // Consent is taken back.
    owner.ok(&["delete", "referencegrant", "vlan"]);
    refused(&tenant.kubectl, "mine", "RefNotPermitted", &[advice]);
    eventually("no pod is left there", PATIENCE, || deployments(&tenant.kubectl).is_empty());
    owner.apply(grant).ok();
    eventually("it is back", PATIENCE, || claims(&owner) == "127.78.0.1 address-tenant/mine\n");
    tenant.kubectl.ok(&["delete", "proxyserver", "mine", "--timeout=60s"]);
    assert_eq!(claims(&owner), "", "nothing is left in the other namespace");
}

#[test]
fn of_those_who_ask_at_the_same_time_one_has_it() {
    let kubectl = shared().namespace("address-race");
    let names = ["a", "b", "c", "d", "e", "f"];
    let all: String = names
        .iter()
        .map(|name| proxy(name, "serverIP: 127.78.1.1/24, networkAttachmentName: vlan"))
        .collect();
    kubectl.apply(&all).ok();
    eventually("each knows", PATIENCE, || {
        let reasons = "jsonpath={.items[*].status.conditions[?(@.type=='NetworkAttached')].reason}";
        let reasons = kubectl.ok(&["get", "proxyservers", "-o", reasons]);
        let lost = reasons.split_whitespace().filter(|reason| *reason == "Conflict").count();
        if lost == names.len() - 1 { Ok(()) } else { Err(reasons) }
    });
    assert_eq!(deployments(&kubectl).lines().count(), 1);
    assert_eq!(claims(&kubectl).lines().count(), 1);
}

#[test]
fn an_infra_chooses_what_nobody_has() {
    let kubectl = shared().namespace("address-infra");
    kubectl.apply(&proxy("first", "serverIP: 192.168.100.4/24, networkAttachmentName: vlan")).ok();
    eventually("it is claimed", PATIENCE, || claims(&kubectl) == "192.168.100.4 address-infra/first\n");
    let infra = |name: &str| {
        format!(
            "apiVersion: causeway.dev/v1alpha1
kind: Infra
metadata: {{name: {name}}}
spec:
  networkConfig: {{cidr: 192.168.100.0/24, gateway: 192.168.100.1, networkAttachmentDefinition: vlan}}
  infraComponents: {{dns: {{baseDomain: example.com}}, proxy: {{controlPlaneNamespace: web}}}}
"
        )
    };
    let chosen = |name: &str| kubectl.value(&format!("infra/{name}"), ".status.addresses['dns','proxy']");
    kubectl.apply(&infra("one")).ok();
    eventually("addresses are chosen", PATIENCE, || chosen("one") == "192.168.100.3 192.168.100.5");
    kubectl.apply(&infra("two")).ok();
    eventually("others by the second", PATIENCE, || {
        let chosen = chosen("two");
        let are_free = ["", "192.168.100.3", "192.168.100.4", "192.168.100.5"];
        if chosen.split(' ').all(|address| !are_free.contains(&address)) { Ok(()) } else { Err(chosen) }
    });
}
