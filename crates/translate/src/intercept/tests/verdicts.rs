//! Why requests are not carried out.

use super::*;

fn alone(spec: &str) -> Option<(Reason, String)> {
    let mut scene = scene();
    scene.requests.push(request("me", 0, spec));
    scene.picture().refused("me")
}

#[test]
fn bad_input_has_a_reason_and_says_what_to_write() {
    for (spec, reason, parts) in [
        ("target: deploy/wbe", Reason::TargetNotFound, &["no Deployment wbe", "did you mean web?"][..]),
        ("target: sts/web", Reason::TargetNotFound, &["no StatefulSet web"]),
        ("targetContainer: wob", Reason::ContainerNotFound, &["spec.targetContainer", "web, side"]),
        (
            "targetContainerPort: 81",
            Reason::PortNotFound,
            &["8080/TCP (http) of web", "9090/TCP (metrics)", "5353/UDP"],
        ),
        (
            "{targetContainer: side, targetContainerPort: http}",
            Reason::PortNotFound,
            &["container side does not declare port http"],
        ),
        (
            "targetContainerPort: metrics",
            Reason::NoService,
            &["no Service leads to port 9090 of deployment/web", "mode: Container"],
        ),
        (
            "workstation: alcie",
            Reason::WorkstationNotFound,
            &["no Workstation shop/alcie", "did you mean alice?"],
        ),
        ("workstation: dave", Reason::WorkstationNotFound, &["its key is that of shop/alice"]),
        (
            "workstation: lab/carol",
            Reason::RefNotPermitted,
            &["ReferenceGrant", "kind InterceptRequest", "kind Workstation"],
        ),
        (
            "match: [{path: {value: '/a?b=1'}}]",
            Reason::InvalidSpec,
            &["spec.match[0].path.value", "write `/a`"],
        ),
        (
            "match: [{path: {value: '/a(', type: Regex}}]",
            Reason::InvalidSpec,
            &["spec.match[0].path.value", "not a regular expression"],
        ),
        (
            "match: [{headers: [{name: x, value: '(a{1000}){1000}', type: Regex}]}]",
            Reason::InvalidSpec,
            &["spec.match[0].headers[0].value", "memory"],
        ),
        (
            "match: [{headers: [{name: 'x y', value: a}]}]",
            Reason::InvalidSpec,
            &["spec.match[0].headers[0].name"],
        ),
        (
            "{targetContainer: side, targetContainerPort: dns, mirror: true}",
            Reason::InvalidSpec,
            &["port 5353 carries datagrams"],
        ),
        ("destinationIP: nowhere", Reason::InvalidSpec, &["spec.destinationIP"]),
    ] {
        let Some((found, message)) = alone(spec) else { panic!("{spec} is carried out") };
        assert_eq!(found, reason, "{spec}: {message}");
        for part in parts {
            assert!(message.contains(part), "{spec}: {message} lacks {part}");
        }
    }
    assert_eq!(alone("targetContainerPort: 8080"), None);
    assert_eq!(alone("{targetContainer: web, targetContainerPort: http}"), None);
}

#[test]
fn who_forbids_it_is_obeyed() {
    let mut scene = scene();
    scene.requests.push(request("me", 0, "{}"));
    let deny = json!({"causeway.dev/intercept": "deny"});
    for (place, field) in
        [("/metadata", "labels"), ("/metadata", "annotations"), ("/spec/template/metadata", "labels")]
    {
        let mut deployment = object("web", WEB);
        for (key, value) in deny.as_object().unwrap() {
            deployment.pointer_mut(place).unwrap()[field][key] = value.clone();
        }
        scene.deployments = vec![deployment];
        let (reason, message) = scene.picture().refused("me").unwrap();
        assert!(reason == Reason::Denied && message.contains("deployment/web forbids"), "{field}: {message}");
    }
    scene.deployments = vec![object("web", WEB)];
    assert_eq!(scene.picture().refused("me"), None);
    scene.denied.insert("shop".to_owned());
    assert_eq!(scene.picture().refused("me").unwrap().0, Reason::Denied);
}

#[test]
fn who_forbids_it_is_not_walked_around() {
    let mut scene = scene();
    let mut denied = object("web", WEB);
    denied["metadata"]["labels"] = json!({"causeway.dev/intercept": "deny"});
    let owned = |mut made: Value, kind: &str, owner: &str| {
        let owner =
            json!({"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": "u", "controller": true});
        made["metadata"]["ownerReferences"] = json!([owner]);
        made
    };
    let replica_set = owned(object("web-6d9f", WEB), "Deployment", "web");
    let mut pod = owned(object("web-6d9f-x", "{}"), "ReplicaSet", "web-6d9f");
    pod["spec"] = denied.pointer("/spec/template/spec").unwrap().clone();
    pod["metadata"]["labels"] = json!({"app": "web"});
    scene.near.replica_sets.insert("web-6d9f".to_owned(), Arc::new(typed(&replica_set)));
    scene.pods.push(pod);
    let canary = WEB.replace("version: v1", "version: canary");
    scene.deployments = vec![denied.clone(), object("canary", &canary)];
    scene.requests = vec![
        request("set", 0, "target: replicaset/web-6d9f"),
        request("pod", 1, "target: pod/web-6d9f-x"),
        request("container", 2, "{target: pod/web-6d9f-x, mode: Container}"),
    ];
    for name in ["set", "pod", "container"] {
        let (reason, message) = scene.picture().refused(name).unwrap();
        let is_told = reason == Reason::Denied && message.contains("deployment/web forbids");
        assert!(is_told, "{name}: {reason:?} {message}");
    }
    scene.requests = vec![request("canary", 0, "target: deploy/canary")];
    let (reason, message) = scene.picture().refused("canary").unwrap();
    let is_told = reason == Reason::NoService && message.contains("Service web leads to deployment/web too");
    assert!(is_told, "{reason:?} {message}");
    denied["metadata"]["labels"] = json!({});
    scene.deployments[0] = denied;
    assert_eq!(scene.picture().refused("canary"), None);
}

#[test]
fn a_workstation_of_another_namespace_needs_that_ones_consent() {
    let mut scene = scene();
    scene.requests.push(request("me", 0, "workstation: lab/carol"));
    let grant = |to: &str| {
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant",
            "metadata": {"name": "g", "namespace": "lab"},
            "spec": {
                "from": [{"group": "causeway.dev", "kind": "InterceptRequest", "namespace": "shop"}],
                "to": [yaml(to)],
            },
        })
    };
    for (to, granted) in [
        ("{group: causeway.dev, kind: Workstation, name: carol}", true),
        ("{group: causeway.dev, kind: Workstation}", true),
        ("{group: causeway.dev, kind: Workstation, name: other}", false),
        ("{group: '', kind: Service}", false),
    ] {
        scene.grants = vec![grant(to)];
        assert_eq!(scene.picture().refused("me").is_none(), granted, "{to}");
    }
}

#[test]
fn of_two_that_overlap_the_younger_is_refused_with_both_names() {
    let header = |value: &str| format!("match: [{{headers: [{{name: X-User, value: {value}}}]}}]");
    let mut scene = scene();
    scene.requests = vec![
        request("b-older", 1, &header("alice")),
        request("a-younger", 2, &format!("{{workstation: bob, {}}}", header("alice"))),
        request("other", 3, &format!("{{workstation: bob, {}}}", header("bob"))),
        request("all", 4, "{}"),
        request("elsewhere", 5, "{targetContainerPort: 5353, targetContainer: side}"),
    ];
    scene.services.push(object(
        "dns",
        "{clusterIP: 10.0.0.2, selector: {app: web}, ports: [{port: 53, protocol: UDP, targetPort: dns}]}",
    ));
    let picture = scene.picture();
    assert_eq!(picture.refused("b-older"), None);
    assert_eq!(picture.refused("other"), None);
    assert_eq!(picture.refused("elsewhere"), None, "another port");
    for (name, other) in [("a-younger", "shop/b-older"), ("all", "shop/b-older")] {
        let (reason, message) = picture.refused(name).unwrap();
        assert_eq!(reason, Reason::Conflict);
        assert!(message.contains(&format!("shop/{name}")) && message.contains(other), "{message}");
    }
    // Whoever goes makes room.
    scene.requests.remove(0);
    assert_eq!(scene.picture().refused("a-younger"), None);
}

#[test]
fn two_workloads_behind_one_service_meet_there() {
    let mut scene = scene();
    let mut canary = object("canary", WEB);
    canary["metadata"]["name"] = json!("canary");
    scene.deployments.push(canary);
    scene.requests =
        vec![request("one", 1, "{}"), request("two", 2, "{target: deployment/canary, workstation: bob}")];
    let (reason, message) = scene.picture().refused("two").unwrap();
    assert!(reason == Reason::Conflict && message.contains("shop/one"), "{message}");
}

#[test]
fn a_request_ends_with_its_time_and_waits_for_what_is_not_read() {
    let mut scene = scene();
    scene.requests = vec![
        request("short", 0, "ttl: 30m"),
        request("long", 0, "{ttl: 2h, match: [{headers: [{name: a, value: b}]}]}"),
    ];
    let picture = scene.picture();
    assert_eq!(picture.requests[&ObjectRef::new("shop", "short")], Verdict::Ending);
    assert_eq!(picture.refused("long"), None);
    let mut world = scene.world();
    world.near.clear();
    let picture = super::picture(&world);
    assert!(matches!(picture.requests[&ObjectRef::new("shop", "long")], Verdict::Pending(_)));
    assert!(picture.fronts.is_empty());
}
