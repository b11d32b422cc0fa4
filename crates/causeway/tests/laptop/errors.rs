//! What goes wrong says what, and what to do.

use std::path::PathBuf;

use causeway_testkit::kubectl::finish;

use crate::world::World;

#[test]
fn what_is_not_there_is_named_with_what_is() {
    let world = World::start();
    let fails = |args: &[&str]| world.causeway(args).fails();
    for (args, says) in [
        (&["intercept", "deploy/web", "--port", "8080:http"][..], "run `causeway connect --context"),
        (&["run", "--", "true"], "run `causeway connect --context"),
        (&["env", "deploy/wbe"], "there is no Deployment wbe in namespace shop; did you mean web?"),
        (
            &["env", "sts/db"],
            "there is no StatefulSet db in namespace shop; `kubectl get statefulsets -n shop` lists them",
        ),
        (&["env", "web"], "names no kind: write KIND/NAME"),
        (&["env", "deploy/web", "-c", "ap"], "has no container ap; did you mean app?; it has: app"),
    ] {
        let said = fails(args);
        assert!(said.contains(says), "{args:?}: {said}");
    }
    world.connect(&["--name", "laptop"]);
    for (args, says) in [
        (&["intercept", "deploy/wbe", "--port", "8080:http"][..], "did you mean web?"),
        (
            &["intercept", "deploy/web", "--port", "8080:htp"],
            "has no port htp; did you mean http?; it has: 8080/TCP (http) of app",
        ),
        (&["intercept", "deploy/web", "--port", "8080:81"], "has no port 81; it has: 8080/TCP (http) of app"),
        (&["intercept", "ds/web", "--port", "8080:http"], "not daemonset/web"),
        (&["intercept", "deploy/web", "--port", "x"], "has no port x"),
        (&["intercept", "deploy/web", "--port", "8080:http", "--header", "x-user"], "write NAME=VALUE"),
        (
            &["intercept", "deploy/web", "--port", "8080:http", "--mode", "container", "--header", "a=b"],
            "mode Container",
        ),
        (&["intercept", "deploy/web", "--port", "8080:http", "--ttl", "soon"], "ttl"),
        (&["connect", "--context", "nowhere"], "has no context nowhere"),
        (&["connect", "--name", "Alice!"], "small letters, digits and dashes"),
    ] {
        let said = fails(args);
        assert!(said.contains(says), "{args:?}: {said}");
    }
    assert!(
        world.kubectl.run(&["get", "interceptrequests"]).stderr.contains("No resources"),
        "nothing was made"
    );
}

#[test]
fn a_right_that_is_missing_is_named() {
    let world = World::start();
    let stranger = kubeconfig(&world, "stranger", "");
    let run = |kubeconfig: &PathBuf, args: &[&str]| finish(&mut world.command_as(kubeconfig, args)).fails();
    let said = run(&stranger, &["connect", "-n", "shop"]);
    assert!(
        said.contains(
            "may not get workstations.causeway.dev in namespace shop; an administrator can allow it"
        ),
        "{said}"
    );
    assert!(said.contains("--verb=get --resource=workstations.causeway.dev"), "{said}");
    let said = run(&stranger, &["env", "deploy/web", "-n", "shop"]);
    assert!(said.contains("may not get deployments.apps in namespace shop"), "{said}");

    // Who may edit may connect, and see what the workload sees; intercepts are not for him to make.
    let editor = kubeconfig(&world, "editor", "edit");
    let ran = finish(&mut world.command_as(&editor, &["connect", "-n", "shop", "--name", "editor"]));
    assert_eq!(ran.code, Some(0), "{ran}");
    let said = run(&editor, &["intercept", "deploy/web", "-n", "shop", "--port", "8080:http"]);
    assert!(said.contains("may not create interceptrequests.causeway.dev in namespace shop"), "{said}");
    let viewer = kubeconfig(&world, "viewer", "view");
    let env = finish(&mut world.command_as(&viewer, &["env", "deploy/web", "-n", "shop"]));
    assert!(
        env.code == Some(0) && env.stdout.contains("GREETING=hello") && !env.stdout.contains("secret"),
        "{env}"
    );
    assert!(env.stderr.contains("left out: PASSWORD: secret web can't be read: "), "{env}");
    assert!(env.stderr.contains("may not get secrets in namespace shop"), "{env}");
}

/// The kubeconfig of an account in namespace `shop` with one of the usual roles there, or none.
fn kubeconfig(world: &World, name: &str, role: &str) -> PathBuf {
    world.kubectl.ok(&["create", "serviceaccount", name]);
    if !role.is_empty() {
        let (role, account) = (format!("--clusterrole={role}"), format!("--serviceaccount=shop:{name}"));
        world.kubectl.ok(&["create", "rolebinding", name, &role, &account]);
    }
    let token = world.kubectl.ok(&["create", "token", name]);
    let admin = std::fs::read_to_string(world.server.kubeconfig()).unwrap();
    let mut config: serde_json::Value =
        serde_json::from_str(&world.kubectl.ok(&["config", "view", "--raw", "-o", "json"])).unwrap();
    assert!(admin.contains("clusters"), "{admin}");
    config["users"][0]["user"] = serde_json::json!({"token": token.trim()});
    let path = world.file(&format!("{name}.kubeconfig"));
    std::fs::write(&path, config.to_string()).unwrap();
    path
}
