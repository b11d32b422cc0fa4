//! What the server knows of fields: `kubectl explain`, `diff`, validation.

use crate::objects::{config_map, deployment};
use crate::peer::shared;

#[test]
fn explains_built_in_kinds() {
    let kubectl = shared().kubectl();
    let pod = kubectl.ok(&["explain", "pod.spec.containers.ports"]);
    for part in [
        "KIND:       Pod",
        "VERSION:    v1",
        "FIELD: ports <[]ContainerPort>",
        "containerPort\t<integer> -required-",
    ] {
        assert!(pod.contains(part), "lacks {part:?}:\n{pod}");
    }
    let deployment = kubectl.ok(&["explain", "deployment.spec", "--recursive"]);
    for part in
        ["GROUP:      apps", "template\t<PodTemplateSpec>", "rollingUpdate\t<", "containerPort\t<integer>"]
    {
        assert!(deployment.contains(part), "lacks {part:?}:\n{deployment}");
    }
    let wrong = kubectl.fails(&["explain", "pod.spec.nonsense"]);
    assert!(wrong.contains("field \"nonsense\" does not exist"), "{wrong}");
}

#[test]
fn explains_every_causeway_kind() {
    let kubectl = shared().kubectl();
    let kinds = [
        "infras",
        "proxyservers",
        "dnsservers",
        "dhcpservers",
        "containernetworks",
        "containernetworktunnelproxies",
        "workstations",
        "interceptrequests",
        "gatewayhostnamerequests",
        "domainclaims",
        "hostnamegrants",
        "hostnamezones",
    ];
    for kind in kinds {
        let said = kubectl.ok(&["explain", &format!("{kind}.causeway.dev.spec")]);
        assert!(said.contains("GROUP:      causeway.dev") && said.contains("FIELDS:"), "{kind}:\n{said}");
    }
    let cidr = kubectl.ok(&["explain", "infra.spec.networkConfig.cidr"]);
    assert!(cidr.contains("FIELD: cidr <string>"), "{cidr}");
}

#[test]
fn diff_says_whether_there_is_a_difference() {
    let kubectl = shared().namespace("diff");
    kubectl.apply(&deployment("web", 0)).ok();
    let diff = |input: &str| kubectl.with_input(input, &["diff", "-f", "-"]);
    let same = diff(&deployment("web", 0));
    assert_eq!(same.code, Some(0), "{same}");
    let other = diff(&deployment("web", 3));
    assert_eq!(other.code, Some(1), "{other}");
    assert!(other.stdout.contains("-  replicas: 0") && other.stdout.contains("+  replicas: 3"), "{other}");
    let new = diff(&config_map("fresh", "a: b"));
    assert_eq!(new.code, Some(1), "{new}");
    assert!(new.stdout.contains("+  name: fresh"), "{new}");
    assert!(kubectl.fails(&["get", "configmap", "fresh"]).contains("(NotFound)"));
}

#[test]
fn unknown_fields_are_refused_warned_of_or_dropped() {
    let kubectl = shared().namespace("validate");
    let odd = deployment("web", 0).replace("  replicas: 0\n", "  replicas: 0\n  replicaz: 0\n");
    let strict = kubectl.apply(&odd).fails();
    assert!(
        strict.contains("(BadRequest)") && strict.contains("unknown field \"spec.replicaz\""),
        "{strict}"
    );
    let warned = kubectl.with_input(&odd, &["apply", "--validate=warn", "-f", "-"]);
    assert_eq!(warned.stdout, "deployment.apps/web created\n");
    assert!(warned.stderr.contains("Warning: unknown field \"spec.replicaz\""), "{warned}");
    let ignored = kubectl.with_input(&odd, &["apply", "--validate=ignore", "-f", "-"]);
    assert!(!ignored.stderr.contains("replicaz"), "{ignored}");
    let wrong = kubectl.apply(&deployment("web", 0).replace("replicas: 0", "replicas: many")).fails();
    assert!(wrong.contains("replicas"), "{wrong}");
}

#[test]
fn a_bad_infra_is_refused_with_its_field() {
    let kubectl = shared().namespace("bad-infra");
    let infra = |network: &str| {
        format!(
            "apiVersion: causeway.dev/v1alpha1\nkind: Infra\nmetadata: {{name: bad}}\nspec:\n  networkConfig: {{{network}}}\n  infraComponents: {{proxy: {{}}}}\n"
        )
    };
    let cases = [
        (
            "cidr: 192.168.100.0/24, gateway: 10.0.0.1, networkAttachmentDefinition: vlan",
            "spec.networkConfig",
        ),
        ("cidr: nonsense, gateway: 10.0.0.1, networkAttachmentDefinition: vlan", "spec.networkConfig.cidr"),
        (
            "cidr: 192.168.100.0/24, gateway: 192.168.100.1",
            "spec.networkConfig.networkAttachmentDefinition: Required value",
        ),
    ];
    for (network, expected) in cases {
        let refused = kubectl.apply(&infra(network)).fails();
        assert!(refused.contains("The Infra \"bad\" is invalid") && refused.contains(expected), "{refused}");
    }
    let unknown = "cidr: 192.168.100.0/24, gateway: 192.168.100.1, networkAttachmentDefinition: v, cird: x";
    let refused = kubectl.apply(&infra(unknown)).fails();
    assert!(refused.contains("unknown field \"spec.networkConfig.cird\""), "{refused}");
}

#[test]
fn a_definition_of_the_users_own_is_served() {
    let kubectl = shared().namespace("crd");
    let definition = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: boats, singular: boat, kind: Boat, shortNames: [bo], categories: [fleet]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    selectableFields: [{jsonPath: .spec.colour}]
    additionalPrinterColumns: [{name: Crew, type: integer, jsonPath: .spec.crew}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [crew]
            x-kubernetes-validations:
            - {rule: 'self.crew >= oldSelf.crew', message: nobody leaves the boat}
            properties:
              crew: {type: integer, minimum: 1, description: How many sail it.}
              colour: {type: string, default: white}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
";
    kubectl.apply(definition).ok();
    kubectl.ok(&["wait", "--for=condition=Established", "crd/boats.example.com", "--timeout=30s"]);
    let boat = |name: &str, spec: &str| {
        kubectl.apply(&format!(
            "apiVersion: example.com/v1\nkind: Boat\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"
        ))
    };
    boat("one", "crew: 3").ok();
    boat("two", "crew: 2, colour: red").ok();
    assert_eq!(kubectl.value("boat/one", ".spec.colour"), "white");
    let table = kubectl.ok(&["get", "fleet"]);
    assert!(
        table.starts_with("NAME   CREW   AGE\none    3 ") || table.starts_with("NAME   CREW\none    3"),
        "{table}"
    );
    let red = kubectl.ok(&["get", "bo", "--field-selector=spec.colour=red", "-o", "name"]);
    assert_eq!(red, "boat.example.com/two\n");
    let fewer = boat("one", "crew: 2").fails();
    assert!(fewer.contains("spec: Invalid value") && fewer.contains("nobody leaves the boat"), "{fewer}");
    let none = boat("three", "crew: 0").fails();
    assert!(
        none.contains("spec.crew: Invalid value: 0: spec.crew in body should be greater than or equal to 1"),
        "{none}"
    );
    let explained = kubectl.ok(&["explain", "boat.spec.crew"]);
    assert!(explained.contains("How many sail it."), "{explained}");
    kubectl.ok(&["delete", "crd", "boats.example.com", "--timeout=30s"]);
    let gone = kubectl.fails(&["get", "boats"]);
    // What kubectl says depends on whether it looks into its cache.
    let words = ["could not find the requested resource", "doesn't have a resource type"];
    assert!(words.iter().any(|words| gone.contains(words)), "{gone}");
}
