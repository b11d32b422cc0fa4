//! A `ProxyServer` the way its users meet it: what the operator makes of it, what an edit changes, what is left of it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::Kubectl;

use crate::peer::shared;

/// A proxy `lab` whose second backend is in another namespace.
fn proxy(elsewhere: &str, extra: &str) -> String {
    format!(
        "apiVersion: causeway.dev/v1alpha1
kind: ProxyServer
metadata: {{name: lab}}
spec:
  networkConfig: {{serverIP: 127.77.0.1/24, networkAttachmentName: vlan100}}
  port: 10443
  backends:
    - {{name: api, hostname: api.example.com, port: 10443, targetService: api, targetPort: 443, targetNamespace: {elsewhere}}}
    - {{name: web, hostname: web.example.com, port: 10444, targetService: web, targetPort: 443, targetNamespace: {elsewhere}}}
{extra}"
    )
}

/// Lets ProxyServers of namespace `from` use every Service of the namespace that `kubectl` works in.
fn grant(kubectl: &Kubectl, from: &str) {
    let grant = format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: {{name: proxies}}
spec:
  from: [{{group: causeway.dev, kind: ProxyServer, namespace: {from}}}]
  to: [{{group: '', kind: Service}}]
"
    );
    kubectl.apply(&grant).ok();
}

fn names(kubectl: &Kubectl, kinds: &str) -> String {
    kubectl.ok(&["get", kinds, "-l", "causeway.dev/owner-name=lab", "-o", "name"])
}

fn condition(kubectl: &Kubectl, kind: &str, field: &str) -> String {
    kubectl.value("proxyserver/lab", &format!(".status.conditions[?(@.type=='{kind}')].{field}"))
}

#[test]
fn a_proxy_gets_its_objects_and_takes_them_along() {
    let server = shared();
    let elsewhere = server.namespace("proxy-targets");
    let kubectl = server.namespace("proxy-objects");
    grant(&elsewhere, "proxy-objects");
    kubectl.apply(&proxy("proxy-targets", "")).ok();
    eventually("all objects are there", PATIENCE, || {
        let made = names(&kubectl, "sa,role,rolebinding,deployment,service");
        made == "serviceaccount/lab-proxy\nrole.rbac.authorization.k8s.io/lab-proxy\n\
                 rolebinding.rbac.authorization.k8s.io/lab-proxy\ndeployment.apps/lab\nservice/lab\n"
    });
    eventually("the rights elsewhere are there", PATIENCE, || {
        let made = names(&elsewhere, "role,rolebinding");
        made == "role.rbac.authorization.k8s.io/proxy-objects.lab-proxy\n\
                 rolebinding.rbac.authorization.k8s.io/proxy-objects.lab-proxy\n"
    });
    let maps = names(&kubectl, "configmap");
    assert!(!maps.contains("bootstrap"), "the native engine needs no start configuration: {maps}");
    let labels = kubectl.value("deployment/lab", ".spec.selector.matchLabels");
    assert_eq!(
        labels,
        r#"{"app":"proxy-server","causeway.dev/owner-name":"lab","causeway.dev/replica":"1"}"#
    );
    let networks = ".spec.template.metadata.annotations.k8s\\.v1\\.cni\\.cncf\\.io/networks";
    assert_eq!(
        kubectl.value("deployment/lab", networks),
        r#"[{"name":"vlan100","namespace":"proxy-objects","ips":["127.77.0.1/24"]}]"#
    );
    assert_eq!(
        kubectl.value("service/lab", ".spec.ports[*]['name','port']"),
        "proxy proxy-10444 10443 10444"
    );
    let account = "system:serviceaccount:proxy-objects:lab-proxy";
    for (namespace, verb, what, answer) in [
        ("proxy-objects", "watch", "proxyserver/lab", "yes\n"),
        ("proxy-objects", "watch", "proxyserver/other", "no\n"),
        ("proxy-objects", "list", "endpointslices.discovery.k8s.io", "no\n"),
        ("proxy-targets", "list", "endpointslices.discovery.k8s.io", "yes\n"),
        ("proxy-targets", "list", "secrets", "no\n"),
    ] {
        let said = server.kubectl().run(&["auth", "can-i", verb, what, "--as", account, "-n", namespace]);
        assert_eq!(said.stdout, answer, "{verb} {what} in {namespace}");
    }

    eventually("the status names what was made", PATIENCE, || {
        kubectl.value("proxyserver/lab", ".status['deploymentName','serviceName','backendCount']")
            == "lab lab 2"
    });
    let address = kubectl.value("service/lab", ".spec.clusterIP");
    assert_eq!(kubectl.value("proxyserver/lab", ".status.serviceIP"), address);

    kubectl.ok(&["delete", "proxyserver", "lab", "--cascade=foreground", "--timeout=60s"]);
    assert_eq!(names(&elsewhere, "role,rolebinding"), "", "nothing is left in the other namespace");
    eventually("nothing is left beside it", PATIENCE, || {
        names(&kubectl, "sa,role,rolebinding,deployment,service,configmap").is_empty()
    });
}

#[test]
fn edits_reach_the_objects() {
    let server = shared();
    let one = server.namespace("proxy-edit-one");
    let two = server.namespace("proxy-edit-two");
    let kubectl = server.namespace("proxy-edits");
    grant(&one, "proxy-edits");
    grant(&two, "proxy-edits");
    kubectl.apply(&proxy("proxy-edit-one", "")).ok();
    eventually("rights in the first namespace", PATIENCE, || names(&one, "role").contains("lab-proxy"));
    eventually("a Deployment", PATIENCE, || names(&kubectl, "deployment").contains("lab"));
    let generation = || kubectl.value("deployment/lab", ".metadata.generation");
    let before = generation();

    kubectl.apply(&proxy("proxy-edit-two", "").replace("10444", "10445")).ok();
    eventually("rights move with the backends", PATIENCE, || {
        names(&two, "role").contains("lab-proxy") && names(&one, "role,rolebinding").is_empty()
    });
    eventually("the Service follows the ports", PATIENCE, || {
        kubectl.value("service/lab", ".spec.ports[*].port") == "10443 10445"
    });
    assert_eq!(generation(), before, "an edit of backends restarts nothing");

    let changed = proxy("proxy-edit-two", "  managerImage: causeway.dev/causeway:edited\n")
        .replace("networkAttachmentName: vlan100", "networkAttachmentName: vlan200");
    kubectl.apply(&changed).ok();
    eventually("the Deployment follows image and network", PATIENCE, || {
        let template = kubectl.value("deployment/lab", ".spec.template");
        ["causeway.dev/causeway:edited", "vlan200"].iter().all(|part| template.contains(part))
    });

    kubectl.apply(&proxy("proxy-edit-two", "  engine: Envoy\n")).ok();
    eventually("Envoy has its start configuration", PATIENCE, || {
        names(&kubectl, "configmap").contains("configmap/lab-proxy-bootstrap\n")
            && kubectl.value("deployment/lab", ".spec.template.spec.containers[*].name") == "envoy manager"
    });
    eventually("the status names it", PATIENCE, || {
        kubectl.value("proxyserver/lab", ".status.configMapName") == "lab-proxy-bootstrap"
    });
    kubectl.ok(&["delete", "deployment", "lab"]);
    eventually("what was deleted by hand comes back", PATIENCE, || {
        kubectl.run(&["get", "deployment", "lab"]).code == Some(0)
    });
    kubectl.ok(&["delete", "proxyserver", "lab", "--timeout=60s"]);
    assert_eq!(names(&two, "role,rolebinding"), "");
}

#[test]
fn a_bad_spec_is_explained_and_leaves_what_runs() {
    let kubectl = shared().namespace("proxy-bad");
    kubectl.apply(&proxy("proxy-bad", "")).ok();
    eventually("the Deployment is there", PATIENCE, || names(&kubectl, "deployment").contains("lab"));
    let before = kubectl.value("deployment/lab", ".metadata.generation");
    let bad = proxy("proxy-bad", "  logLevel: debug\n")
        .replace("hostname: web.example.com, port: 10444", "hostname: api.example.com, port: 10443");
    kubectl.apply(&bad).ok();
    eventually("the condition says it", PATIENCE, || {
        condition(&kubectl, "ConfigurationValid", "reason") == "InvalidSpec"
    });
    let message = condition(&kubectl, "ConfigurationValid", "message");
    for part in ["api.example.com", "spec.backends[1]", "spec.backends[0]"] {
        assert!(message.contains(part), "lacks {part}: {message}");
    }
    assert_eq!(condition(&kubectl, "Ready", "status"), "False");
    assert_eq!(kubectl.value("deployment/lab", ".metadata.generation"), before);
    let events = kubectl.ok(&["get", "events.events.k8s.io", "-o", "jsonpath={.items[*].reason}"]);
    assert!(events.contains("InvalidSpec"), "{events}");
    kubectl.apply(&proxy("proxy-bad", "")).ok();
    eventually("the correction is taken", PATIENCE, || {
        condition(&kubectl, "ConfigurationValid", "reason") != "InvalidSpec"
    });
    kubectl.ok(&["delete", "proxyserver", "lab", "--timeout=60s"]);
}

#[test]
fn reports_of_pods_are_summed_up_and_go_with_them() {
    let kubectl = shared().namespace("proxy-reports");
    kubectl.apply(&proxy("proxy-reports", "")).ok();
    let reported = |name: &str, manager: &str| {
        let body = format!(
            "apiVersion: causeway.dev/v1alpha1\nkind: ProxyServer\nmetadata: {{name: lab}}\nstatus:\n  replicas:\n    \
             - {{name: {name}, serving: true}}\n"
        );
        let manager = format!("--field-manager={manager}");
        let args = ["apply", "--server-side", "--subresource=status", &manager, "-f", "-"];
        kubectl.with_input(&body, &args).ok();
    };
    reported("lab-gone", "causeway-proxy-lab-gone");
    eventually("the report of a pod that does not exist is removed", PATIENCE, || {
        !kubectl.value("proxyserver/lab", ".status.replicas[*].name").contains("lab-gone")
    });
    kubectl.ok(&["delete", "proxyserver", "lab", "--timeout=60s"]);
}

/// A Service of that name whose only endpoint says the name to whoever connects, for as long as the tests run.
fn speaking_service(kubectl: &Kubectl, name: &'static str) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(name.as_bytes());
        }
    });
    kubectl.loopback_service(name, port);
}

/// A port whose every connection goes to one backend, whatever it says.
fn open(name: &str, port: u16) -> String {
    format!(
        "    - {{port: {port}, plaintext: {{backend: {name}}}, noSNI: {{backend: {name}}}, \
         unknownSNI: {{backend: {name}}}}}\n"
    )
}

/// What the proxy's address says on this port; nothing if the connection is refused or ends.
fn heard(port: u16) -> String {
    let mut said = String::new();
    if let Ok(mut stream) = TcpStream::connect(("127.77.0.9", port)) {
        let _ = stream.read_to_string(&mut said);
    }
    said
}

#[test]
fn a_service_elsewhere_needs_the_grant_of_its_namespace() {
    let server = shared();
    let elsewhere = server.namespace("grants-there");
    let kubectl = server.namespace("grants-here");
    speaking_service(&kubectl, "near");
    speaking_service(&elsewhere, "far");
    let backend = |name: &str, port: u16, namespace: &str| {
        format!(
            "    - {{name: {name}, hostname: {name}.test, port: {port}, targetService: {name}, targetPort: 443, \
             targetNamespace: {namespace}}}\n"
        )
    };
    let manifest = format!(
        "apiVersion: causeway.dev/v1alpha1\nkind: ProxyServer\nmetadata: {{name: lab}}\nspec:\n  \
         networkConfig: {{serverIP: 127.77.0.9}}\n  backends:\n{}{}  ports:\n{}{}",
        backend("near", 10451, "grants-here"),
        backend("far", 10452, "grants-there"),
        open("near", 10451),
        open("far", 10452),
    );
    kubectl.apply(&manifest).ok();
    eventually("what is at home is carried", PATIENCE, || heard(10451) == "near");
    eventually("the condition says what is missing", PATIENCE, || {
        condition(&kubectl, "BackendsResolved", "reason") == "RefNotPermitted"
            && condition(&kubectl, "Ready", "message") == "1 proxy serving 1 of 2 backends"
    });
    let message = condition(&kubectl, "BackendsResolved", "message");
    assert!(message.contains("far: ") && message.contains("ReferenceGrant in grants-there"), "{message}");
    assert_eq!(names(&elsewhere, "role,rolebinding"), "", "no rights without a grant");
    assert_eq!(heard(10452), "");

    grant(&elsewhere, "somewhere-else");
    grant(&elsewhere, "grants-here");
    eventually("what is granted is carried", PATIENCE, || heard(10452) == "far");
    eventually("the condition follows", PATIENCE, || {
        condition(&kubectl, "BackendsResolved", "reason") == "Resolved"
    });

    elsewhere.ok(&["delete", "referencegrant", "proxies"]);
    eventually("what is no longer granted is no longer carried", PATIENCE, || heard(10452).is_empty());
    eventually("the rights are gone", PATIENCE, || names(&elsewhere, "role,rolebinding").is_empty());
    assert_eq!(condition(&kubectl, "Ready", "status"), "True");
    assert_eq!(heard(10451), "near");
    kubectl.ok(&["delete", "proxyserver", "lab", "--timeout=60s"]);
}

/// The account of a proxy's pods can be used by any pod of its namespace, so a grant of one Service must not show it the
/// others.
#[test]
fn a_grant_for_one_service_gives_that_service() {
    let server = shared();
    let elsewhere = server.namespace("one-there");
    let kubectl = server.namespace("one-here");
    speaking_service(&elsewhere, "far");
    speaking_service(&elsewhere, "private");
    elsewhere
        .apply(
            "apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: {name: far}
spec:
  from: [{group: causeway.dev, kind: ProxyServer, namespace: one-here}]
  to: [{group: '', kind: Service, name: far}]
",
        )
        .ok();
    let backend = |name: &str, port: u16| {
        format!(
            "    - {{name: {name}, hostname: {name}.test, port: {port}, targetService: {name}, targetPort: 443, \
             targetNamespace: one-there}}\n"
        )
    };
    let manifest = format!(
        "apiVersion: causeway.dev/v1alpha1\nkind: ProxyServer\nmetadata: {{name: lab}}\nspec:\n  \
         networkConfig: {{serverIP: 127.77.0.9}}\n  backends:\n{}{}  ports:\n{}{}",
        backend("far", 10461),
        backend("private", 10462),
        open("far", 10461),
        open("private", 10462),
    );
    kubectl.apply(&manifest).ok();
    eventually("the granted Service is carried", PATIENCE, || heard(10461) == "far");
    assert_eq!(heard(10462), "", "the other is not");
    eventually("the condition says which is missing", PATIENCE, || {
        condition(&kubectl, "BackendsResolved", "message").starts_with("private: ")
    });
    assert_eq!(names(&elsewhere, "role,rolebinding"), "", "no rights in the other namespace");
    let account = "system:serviceaccount:one-here:lab-proxy";
    for (what, namespace, visible) in [
        ("services", "one-there", false),
        ("service/far", "one-there", false),
        ("endpointslices.discovery.k8s.io", "one-there", false),
        ("referencegrants", "one-there", false),
        ("supplies", "one-here", true),
    ] {
        let ran = server.kubectl().run(&["get", what, "-n", namespace, "--as", account]);
        assert_eq!(ran.code == Some(0), visible, "{what} in {namespace}: {}", ran.stderr);
    }
    let seen = server.kubectl().ok(&["get", "supplies", "-n", "one-here", "-o", "yaml", "--as", account]);
    assert!(seen.contains("name: far") && !seen.contains("name: private"), "{seen}");

    // Endpoints are followed, and a grant that goes ends it.
    elsewhere.ok(&["delete", "endpointslice", "far-1"]);
    eventually("an endpoint that is gone is no longer used", PATIENCE, || heard(10461).is_empty());
    speaking_service(&elsewhere, "far");
    eventually("a new one is", PATIENCE, || heard(10461) == "far");
    elsewhere.ok(&["delete", "referencegrant", "far"]);
    eventually("what is no longer granted is no longer carried", PATIENCE, || heard(10461).is_empty());
    kubectl.ok(&["delete", "proxyserver", "lab", "--timeout=60s"]);
}

#[test]
fn what_is_wrong_is_named_with_its_value() {
    let server = shared();
    let kubectl = server.namespace("proxy-words");
    let refused = |from: &str, to: &str| kubectl.apply(&proxy("proxy-words", "").replace(from, to)).stderr;
    let message = refused("hostname: api.example.com", "hostname: My_Shop");
    assert!(message.contains("\"My_Shop\"") && message.contains("backends[0].hostname"), "{message}");
    kubectl.apply(&proxy("proxy-words", "  ports: [{port: 10443, noSNI: {backend: nobody}}]\n")).ok();
    eventually("a backend that is not there is named", PATIENCE, || {
        condition(&kubectl, "ConfigurationValid", "message")
            == "spec.ports[0].noSNI.backend: there is no backend `nobody`; on port 10443 there is api"
    });

    kubectl.apply(&proxy("nowhere", "")).ok();
    eventually("a namespace that is not there is named", PATIENCE, || {
        condition(&kubectl, "BackendsResolved", "message")
            == "api, web: there is no namespace nowhere: create it, or correct targetNamespace"
    });
    let image = proxy("nowhere", "  managerImage: registry.test/evil:1\n");
    kubectl.apply(&image).ok();
    eventually("an image of somebody else is refused", PATIENCE, || {
        condition(&kubectl, "ConfigurationValid", "message")
            .starts_with("spec.managerImage: `registry.test/evil:1`")
    });
    kubectl.ok(&["delete", "proxyserver", "lab", "--timeout=60s"]);
}
