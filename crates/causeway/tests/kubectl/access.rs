//! Who may do what: `kubectl auth`, tokens, refusals.

use crate::objects::config_map;
use crate::peer::shared;

#[test]
fn can_i_and_whoami() {
    let kubectl = shared().namespace("auth");
    let who = kubectl.ok(&["auth", "whoami", "-o", "json"]);
    let who: serde_json::Value = serde_json::from_str(&who).unwrap();
    assert_eq!(who["status"]["userInfo"]["groups"][0], "system:masters", "{who}");
    assert_eq!(kubectl.ok(&["auth", "can-i", "delete", "nodes"]), "yes\n");
    let jane = kubectl.run(&["auth", "can-i", "get", "pods", "--as=jane"]);
    assert_eq!((jane.code, jane.stdout.as_str()), (Some(1), "no\n"));
    kubectl.ok(&["create", "role", "reader", "--verb=get,list", "--resource=pods,pods/log"]);
    kubectl.ok(&["create", "rolebinding", "jane", "--role=reader", "--user=jane"]);
    assert_eq!(kubectl.ok(&["auth", "can-i", "get", "pods", "--as=jane"]), "yes\n");
    assert_eq!(kubectl.ok(&["auth", "can-i", "get", "pods", "--subresource=log", "--as=jane"]), "yes\n");
    assert_eq!(kubectl.run(&["auth", "can-i", "delete", "pods", "--as=jane"]).code, Some(1));
    assert_eq!(kubectl.run(&["auth", "can-i", "get", "pods", "--as=jane", "-n", "default"]).code, Some(1));
    let list = kubectl.ok(&["auth", "can-i", "--list", "--as=jane"]);
    let lines: Vec<String> =
        list.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert!(lines.iter().any(|line| line == "pods [] [] [get list]"), "{list}");
    let group = kubectl.run(&["auth", "can-i", "get", "pods", "--as=joe", "--as-group=system:masters"]);
    assert_eq!(group.stdout, "yes\n", "{group}");
}

#[test]
fn refusals_are_in_the_words_of_kubernetes() {
    let kubectl = shared().namespace("auth-refused");
    let refused = kubectl.fails(&["get", "pods", "--as=jane"]);
    assert_eq!(
        refused,
        "Error from server (Forbidden): pods is forbidden: User \"jane\" cannot list resource \"pods\" in API group \"\" in the namespace \"auth-refused\"\n"
    );
    let refused = kubectl.fails(&["get", "infra", "x", "--as=jane"]);
    assert!(refused.contains("infras.causeway.dev \"x\" is forbidden: User \"jane\" cannot get resource \"infras\" in API group \"causeway.dev\" in the namespace \"auth-refused\""), "{refused}");
    let refused = kubectl.fails(&["get", "nodes", "--as=jane"]);
    assert!(
        refused.contains("cannot list resource \"nodes\" in API group \"\" at the cluster scope"),
        "{refused}"
    );
}

#[test]
fn a_created_token_is_its_service_account() {
    let server = shared();
    let kubectl = server.namespace("auth-token");
    kubectl.ok(&["create", "serviceaccount", "robot"]);
    let token = kubectl.ok(&["create", "token", "robot", "--duration=1h"]);
    let home = tempfile::tempdir().unwrap();
    let config = home.path().join("config");
    std::fs::copy(server.kubeconfig(), &config).unwrap();
    let robot = causeway_testkit::kubectl::Kubectl::new(&config, home.path(), "auth-token");
    robot.ok(&["config", "set-credentials", "robot", "--token", token.trim()]);
    robot.ok(&["config", "set-context", "--current", "--user=robot"]);
    let who = robot.ok(&["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"]);
    assert_eq!(who, "system:serviceaccount:auth-token:robot");
    let refused = robot.fails(&["get", "secrets"]);
    assert!(
        refused.contains("User \"system:serviceaccount:auth-token:robot\" cannot list resource \"secrets\""),
        "{refused}"
    );
    kubectl.ok(&[
        "create",
        "rolebinding",
        "robot",
        "--clusterrole=view",
        "--serviceaccount=auth-token:robot",
    ]);
    robot.ok(&["get", "configmaps"]);
    assert!(robot.fails(&["delete", "configmaps", "--all"]).contains("(Forbidden)"));
    robot.ok(&["config", "set-credentials", "robot", "--token=nonsense"]);
    let unknown = robot.fails(&["get", "configmaps"]);
    assert!(
        unknown.contains("You must be logged in to the server") || unknown.contains("Unauthorized"),
        "{unknown}"
    );
}

#[test]
fn who_may_read_one_object_may_list_that_one() {
    let test = shared().namespace("named-list");
    test.apply(&[config_map("one", "a: b"), config_map("two", "a: b")].join("---\n")).ok();
    let names = "--resource-name=one";
    test.ok(&["create", "role", "one", "--verb=get,list,watch", "--resource=configmaps", names]);
    test.ok(&["create", "rolebinding", "one", "--role=one", "--user=reader"]);
    let get = ["get", "configmaps", "-o", "name", "--as=reader"];
    let selected = [&get[..], &["--field-selector=metadata.name=one"]].concat();
    assert_eq!(test.ok(&selected), "configmap/one\n");
    for refused in ["--field-selector=metadata.name=two", "--field-selector=metadata.name!=two"] {
        let said = test.fails(&[&get[..], &[refused]].concat());
        assert!(said.contains("cannot list resource"), "{said}");
    }
}
