//! Containers that are replaced.

use k8s_openapi::api::core::v1::Container;

use super::swap::{Replaced, dressed};
use super::*;

const CONTAINER: &str = "mode: Container";

fn container(text: &str) -> Container {
    typed(&yaml(text))
}

#[test]
fn a_container_is_replaced_as_a_whole_and_listens_where_it_did() {
    let mut scene = scene();
    scene.requests.push(request("me", 0, CONTAINER));
    let picture = scene.picture();
    let target = TargetRef { kind: TargetKind::Deployment, name: "web".to_owned() };
    let swap = &picture.swaps[&("shop".to_owned(), target.clone())];
    assert!(picture.fronts.is_empty(), "no Service is touched");
    assert_eq!((swap.account.as_str(), swap.original.name.as_str()), ("web", "web"));
    let Protocol::Tcp(route) = &listener(&swap.plan, 8080).protocol else { panic!() };
    assert!(route.action.targets().iter().all(|target| !target.cluster.contains("original")));
    assert_eq!(swap.plan.listeners.len(), 1);
    assert_eq!(swap::carrier_name(&target), "web-deploy-swap");
}

#[test]
fn what_cannot_be_replaced_says_why() {
    let pod = |owner: Value| {
        let mut pod = object(
            "one",
            "{containers: [{name: web, image: web:1, ports: [{containerPort: 8080, name: http}]}]}",
        );
        pod["metadata"]["ownerReferences"] = owner;
        pod
    };
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u", "controller": true}]);
    let mut scene = scene();
    scene.requests.push(request("me", 0, CONTAINER));
    scene.requests[0]["spec"]["target"] = json!("pod/one");
    scene.pods = vec![pod(owner)];
    let (reason, message) = scene.picture().refused("me").unwrap();
    assert!(reason == Reason::InvalidSpec && message.contains("ReplicaSet web-1"), "{message}");
    scene.pods = vec![pod(json!([]))];
    assert_eq!(scene.picture().refused("me"), None);
}

#[test]
fn a_container_is_left_in_its_place_while_nobody_would_answer() {
    let target = TargetRef { kind: TargetKind::Deployment, name: "web".to_owned() };
    let replaced = Replaced::new(
        &container("{name: web, image: web:1}"),
        &container("{name: web, image: 'causeway:1'}"),
    );
    // Now it is 01:00:00.
    for (replica, away, is_replaced, fallback, swapped) in [
        (Some("stowaway-1"), None, false, true, true),
        (None, None, false, true, false),
        (None, None, false, false, true),
        (None, Some("2026-01-01T00:59:50Z"), false, true, false),
        (None, Some("2026-01-01T00:59:50Z"), true, true, true),
        (None, Some("2026-01-01T00:59:20Z"), true, true, false),
    ] {
        let mut scene = scene();
        scene.requests.push(request("me", 0, &format!("{{mode: Container, fallback: {fallback}}}")));
        scene.replica = replica.map(ToOwned::to_owned);
        scene.away = away;
        if is_replaced {
            scene.near.replaced.insert(target.clone(), replaced.clone());
        }
        let picture = scene.picture();
        let accepted = picture.accepted("me");
        let found = (picture.swaps.len() == 1, !accepted.is_held);
        assert_eq!(found, (swapped, swapped), "{replica:?} {away:?} {is_replaced} {fallback}");
        // Nothing else need happen for it to be looked at again at that time.
        let until = (is_replaced && swapped).then(|| "2026-01-01T01:00:20Z".parse().unwrap());
        assert_eq!(accepted.held_from, until);
    }
}

#[test]
fn modes_do_not_mix_on_one_target() {
    let mut scene = scene();
    scene.requests = vec![
        request("one", 1, CONTAINER),
        request("two", 2, "{workstation: bob, match: [{headers: [{name: a, value: b}]}]}"),
        request("three", 3, "{mode: Container, targetContainer: side, targetContainerPort: dns}"),
        request("four", 4, CONTAINER),
        request("five", 5, "{mode: Container, targetContainerPort: metrics}"),
    ];
    let picture = scene.picture();
    assert_eq!(picture.refused("one"), None);
    assert_eq!(picture.refused("five"), None, "another port of the same container");
    for (name, part) in [("two", "mode Container"), ("three", "only one container"), ("four", "one port")] {
        let (reason, message) = picture.refused(name).unwrap();
        assert!(
            reason == Reason::Conflict && message.contains(part) && message.contains("shop/one"),
            "{message}"
        );
    }
    let ports: Vec<_> =
        picture.swaps.values().next().unwrap().plan.listeners.iter().map(|l| l.bind.port()).collect();
    assert_eq!(ports, [8080, 9090]);
}

#[test]
fn what_is_put_back_is_what_was_there_with_what_its_owner_changed_since() {
    let original = container(
        "{name: web, image: web:1, command: [sh], args: [-c, run], workingDir: /app, env: [{name: A, value: b}],
          ports: [{containerPort: 8080}], securityContext: {readOnlyRootFilesystem: true, runAsUser: 1234},
          volumeMounts: [{name: data, mountPath: /data}], lifecycle: {preStop: {exec: {command: [x]}}},
          readinessProbe: {exec: {command: [check]}}}",
    );
    let carrier = container(
        "{name: carrier, image: 'causeway:1', imagePullPolicy: IfNotPresent, args: [carrier],
          env: [{name: CAUSEWAY_CARRIER_POD, value: x}], volumeMounts: [{name: causeway-carrier-state, mountPath: /s}],
          readinessProbe: {httpGet: {path: /ready, port: 19080}}}",
    );
    let worn = dressed(&original, &carrier);
    assert_eq!((worn.name.as_str(), worn.command.as_ref(), worn.lifecycle.as_ref()), ("web", None, None));
    assert_eq!(worn.security_context, original.security_context);
    assert_eq!(worn.env.as_ref().unwrap().len(), 2);
    let replaced = Replaced::new(&original, &worn);
    assert_eq!(replaced.undone(&worn), original);
    assert!(replaced.is_in_place(&worn));
    // The API server fills in what was left open.
    let mut live = worn.clone();
    live.readiness_probe.as_mut().unwrap().period_seconds = Some(10);
    live.termination_message_path = Some("/dev/termination-log".to_owned());
    assert!(replaced.is_in_place(&live));
    // Its owner brings another image, and another variable.
    live.image = Some("web:2".to_owned());
    live.env.as_mut().unwrap()[0].value = Some("c".to_owned());
    assert!(!replaced.is_in_place(&live));
    let undone = replaced.undone(&live);
    assert_eq!(undone.image.as_deref(), Some("web:2"));
    assert_eq!((&undone.command, &undone.args), (&original.command, &original.args));
    assert_eq!(undone.readiness_probe, original.readiness_probe);
    assert_eq!(undone.env.unwrap()[0].value.as_deref(), Some("c"));
    assert_eq!(undone.volume_mounts, original.volume_mounts);
}

#[test]
fn a_pod_that_is_hidden_behind_its_stand_in_is_still_found_by_its_services() {
    let mut scene = scene();
    scene.services = vec![object(
        "web",
        "{clusterIP: 10.0.0.1, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}",
    )];
    let mut pod = object("one", "{containers: [{name: web, image: web:1}]}");
    pod["metadata"]["labels"] = json!({"app": "web"});
    scene.pods = vec![pod.clone()];
    scene.requests.push(request("me", 0, "{mode: Container, target: pod/one, targetContainerPort: 8080}"));
    assert_eq!(scene.picture().refused("me"), None, "a Service says that the port is there");
    pod["metadata"]["labels"] = json!({"app": "one-pod-swap.causeway"});
    scene.pods = vec![pod];
    let target = TargetRef { kind: TargetKind::Pod, name: "one".to_owned() };
    scene.near.stood_in.insert(target, [("app".to_owned(), "web".to_owned())].into());
    assert_eq!(scene.picture().refused("me"), None, "and so it does once the pod is hidden");
}
