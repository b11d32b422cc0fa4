//! `kubectl create` and `run`, which send protobuf bodies for the kinds they know.

use crate::peer::shared;

#[test]
fn the_common_kinds() {
    let kubectl = shared().namespace("create");
    let image = "--image=causeway.dev/causeway";
    let cases: &[(&[&str], &str)] = &[
        (&["create", "namespace", "create-more"], "namespace/create-more created"),
        (&["create", "configmap", "settings", "--from-literal=a=b"], "configmap/settings created"),
        (&["create", "secret", "generic", "hidden", "--from-literal=password=x"], "secret/hidden created"),
        (
            &["create", "secret", "docker-registry", "pull", "--docker-username=u", "--docker-password=p"],
            "secret/pull created",
        ),
        (&["create", "serviceaccount", "robot"], "serviceaccount/robot created"),
        (&["create", "deployment", "web", image, "--replicas=0", "--port=80"], "deployment.apps/web created"),
        (&["create", "service", "clusterip", "web", "--tcp=80:8080"], "service/web created"),
        (&["create", "service", "nodeport", "open", "--tcp=80:8080"], "service/open created"),
        (&["create", "service", "externalname", "out", "--external-name=example.com"], "service/out created"),
        (&["expose", "deployment", "web", "--name=shown", "--port=81"], "service/shown exposed"),
        (
            &["create", "role", "reader", "--verb=get,list", "--resource=pods"],
            "role.rbac.authorization.k8s.io/reader created",
        ),
        (
            &["create", "rolebinding", "reader", "--role=reader", "--serviceaccount=create:robot"],
            "rolebinding.rbac.authorization.k8s.io/reader created",
        ),
        (
            &["create", "clusterrole", "create-test", "--verb=get", "--resource=nodes"],
            "clusterrole.rbac.authorization.k8s.io/create-test created",
        ),
        (
            &["create", "clusterrolebinding", "create-test", "--clusterrole=create-test", "--user=jane"],
            "clusterrolebinding.rbac.authorization.k8s.io/create-test created",
        ),
        (&["run", "lone", image, "--restart=Never", "--", "version"], "pod/lone created"),
    ];
    for (args, said) in cases {
        assert_eq!(kubectl.ok(args).trim_end(), *said);
    }
    assert_eq!(kubectl.value("secret/hidden", ".data.password"), "eA==");
    assert_eq!(kubectl.value("service/web", ".spec.ports[0].targetPort"), "8080");
    assert_eq!(kubectl.value("service/shown", ".spec.selector.app"), "web");
    assert_eq!(kubectl.value("rolebinding/reader", ".subjects[0].name"), "robot");
    assert_eq!(
        kubectl.value("deployment/web", ".spec.template.spec.containers[0].image"),
        "causeway.dev/causeway"
    );
    kubectl.ok(&["wait", "pod/lone", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s"]);
    assert!(kubectl.ok(&["logs", "lone"]).starts_with("causeway "));
    let twice = kubectl.fails(&["create", "configmap", "settings"]);
    assert!(twice.contains("configmaps \"settings\" already exists"), "{twice}");
    let bad = kubectl.fails(&["create", "configmap", "Not_A_Name"]);
    assert!(
        bad.contains("metadata.name: Invalid value: \"Not_A_Name\"") && bad.contains("RFC 1123"),
        "{bad}"
    );
}

#[test]
fn generated_names() {
    let kubectl = shared().namespace("create-generated");
    let input = "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: made-}\n";
    let said = kubectl.with_input(input, &["create", "-f", "-"]).ok();
    assert!(
        said.starts_with("configmap/made-") && said.len() == "configmap/made-abcde created\n".len(),
        "{said}"
    );
}
