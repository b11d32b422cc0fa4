use std::{fs, path::Path};

use causeway_node::LogOptions;
use causeway_testkit::eventually;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod};
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;

use crate::world::{World, condition, container, is_ready, phase, pod, restarts, waiting};

// In scripts `$$$$` is the shell's `$$`: Kubernetes reads `$$` as an escaped dollar.
const FOREVER: &str = "while :; do sleep 0.1; done";

fn is_alive(pid: &str) -> bool {
    assert!(pid.trim().parse::<i32>().is_ok(), "not a pid: {pid}");
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z")
}

async fn read_when_there(path: &str) -> String {
    eventually(path, async || {
        fs::read_to_string(path).ok().filter(|text| text.ends_with('\n')).ok_or_else(String::new)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_runs_logs_and_ends_with_its_grace_period() {
    let world = World::start().await;
    let script = format!(
        "trap 'echo bye; exit 0' TERM; echo $$$$ > {}; echo hello; echo oops >&2; {FOREVER}",
        world.path("pid")
    );
    world.create::<Pod>(pod("polite", &script, json!({}))).await;
    let up = world.pod("polite", "the pod is ready", is_ready).await;
    let status = up.status.unwrap();
    assert!(status.pod_ip.as_deref().is_some_and(|ip| ip.starts_with("127.")), "{:?}", status.pod_ip);
    assert_ne!(status.pod_ip, status.host_ip);
    assert_eq!(status.qos_class.as_deref(), Some("BestEffort"));
    assert_eq!(up.spec.unwrap().node_name.as_deref(), Some("test-node"));
    eventually("both lines are in the log", async || {
        let text = world.logs("polite", LogOptions::default()).await;
        (text.contains("hello\n") && text.contains("oops\n")).then_some(()).ok_or(text)
    })
    .await;
    let pid = read_when_there(&world.path("pid")).await;

    let follower = {
        let options = LogOptions { follow: true, tail_lines: Some(0), ..LogOptions::default() };
        let reader = causeway_node::LogReader::new(world.data_dir());
        let stream = reader.open("default", "polite", "main", options).await.unwrap();
        tokio::spawn(futures::StreamExt::collect::<Vec<_>>(stream))
    };
    world.delete_pod("polite", 5).await;
    eventually("the pod is gone from the API", async || {
        let pod = world.api::<Pod>().get_opt("polite").await.unwrap();
        if pod.is_some() { Err("still there".to_owned()) } else { Ok(()) }
    })
    .await;
    assert!(!is_alive(&pid), "the object went only after its process");
    let followed: Vec<u8> =
        follower.await.unwrap().into_iter().flat_map(|chunk| chunk.unwrap().to_vec()).collect();
    assert_eq!(String::from_utf8(followed).unwrap(), "bye\n");
    eventually("the pod's directory is removed", async || {
        if world.data_dir().join("pods/default/polite").exists() { Err(String::new()) } else { Ok(()) }
    })
    .await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_ignores_sigterm_is_killed_with_its_children() {
    let world = World::start().await;
    let script = format!("trap '' TERM; sleep 600 & echo $! > {}; {FOREVER}", world.path("pid"));
    world.create::<Pod>(pod("stubborn", &script, json!({}))).await;
    let pid = read_when_there(&world.path("pid")).await;
    assert!(is_alive(&pid));
    world.delete_pod("stubborn", 1).await;
    eventually("the pod is gone", async || {
        let pod = world.api::<Pod>().get_opt("stubborn").await.unwrap();
        if pod.is_some() { Err("still there".to_owned()) } else { Ok(()) }
    })
    .await;
    eventually("its child is gone, too", async || if is_alive(&pid) { Err(String::new()) } else { Ok(()) })
        .await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crashing_container_backs_off_and_keeps_its_previous_log() {
    let world = World::start().await;
    let script = format!("echo run >> {0}; echo attempt $(wc -l < {0}); exit 3", world.path("runs"));
    world.create::<Pod>(pod("crash", &script, json!({}))).await;
    let down = world
        .pod("crash", "a crash loop after two restarts", |pod| {
            restarts(pod) >= 2 && waiting(pod).is_some_and(|(reason, _)| reason == "CrashLoopBackOff")
        })
        .await;
    assert_eq!(phase(&down), "Running");
    let status = &down.status.unwrap().container_statuses.unwrap()[0];
    let last = status.last_state.as_ref().unwrap().terminated.as_ref().unwrap();
    assert_eq!((last.exit_code, last.reason.as_deref()), (3, Some("Error")));
    let previous = world.logs("crash", LogOptions { previous: true, ..LogOptions::default() }).await;
    assert!(previous.starts_with("attempt "), "{previous}");
    let events = world.api::<Event>().list(&ListParams::default()).await.unwrap();
    let reasons: Vec<_> = events.items.iter().filter_map(|event| event.reason.as_deref()).collect();
    for reason in ["Scheduled", "Pulled", "Created", "Started", "BackOff"] {
        assert!(reasons.contains(&reason), "{reason} is missing in {reasons:?}");
    }
    let started: Vec<_> =
        events.items.iter().filter(|event| event.reason.as_deref() == Some("Started")).collect();
    assert_eq!(started.len(), 1, "the same event is counted, not written again");
    assert!(started[0].count.unwrap() >= 2);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_of_the_node_costs_nothing() {
    let mut world = World::start().await;
    let script = |name: &str| {
        format!(
            "echo $$$$ > {}; n=0; while :; do n=$((n+1)); echo line $n; sleep 0.1; done",
            world.path(name)
        )
    };
    let (kept, dropped) = (script("kept"), script("dropped"));
    world.create::<Pod>(pod("kept", &kept, json!({}))).await;
    world.create::<Pod>(pod("dropped", &dropped, json!({}))).await;
    let first = world.pod("kept", "the first pod is ready", is_ready).await;
    let second = world.pod("dropped", "the second pod is ready", is_ready).await;
    let address = |pod: &Pod| pod.status.as_ref().and_then(|status| status.pod_ip.clone());
    assert_ne!(address(&first), address(&second), "each pod has an address of its own");
    let (kept_pid, dropped_pid) =
        (read_when_there(&world.path("kept")).await, read_when_there(&world.path("dropped")).await);
    world.crash_node().await;
    assert!(is_alive(&kept_pid) && is_alive(&dropped_pid), "processes outlive the node");
    world.delete_pod("dropped", 0).await;
    let before = world.logs("kept", LogOptions::default()).await.lines().count();

    world.start_node();
    eventually(
        "the orphan is removed",
        async || {
            if is_alive(&dropped_pid) { Err(String::new()) } else { Ok(()) }
        },
    )
    .await;
    assert!(is_alive(&kept_pid));
    let adopted = world.pod("kept", "the adopted pod is ready", is_ready).await;
    assert_eq!(restarts(&adopted), 0);
    assert_eq!(address(&adopted), address(&first));
    eventually("the log goes on", async || {
        let text = world.logs("kept", LogOptions::default()).await;
        (text.lines().count() > before + 3).then_some(()).ok_or(text)
    })
    .await;
    let text = world.logs("kept", LogOptions::default()).await;
    let numbers: Vec<usize> =
        text.lines().map(|line| line.trim_start_matches("line ").parse().unwrap()).collect();
    assert_eq!(numbers, (1..=numbers.len()).collect::<Vec<_>>(), "no line is lost or written twice");

    // A process that ends while nobody watches is seen by the next life of the node, with its exit code.
    world.crash_node().await;
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(kept_pid.trim().parse().unwrap()).unwrap(),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    eventually("the process ends", async || if is_alive(&kept_pid) { Err(String::new()) } else { Ok(()) })
        .await;
    world.start_node();
    let restarted =
        world.pod("kept", "the container is restarted", |pod| restarts(pod) == 1 && is_ready(pod)).await;
    let status = &restarted.status.unwrap().container_statuses.unwrap()[0];
    assert_eq!(status.last_state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code, 143);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clean_stop_ends_processes_and_the_next_start_runs_them_again() {
    let mut world = World::start().await;
    world
        .create::<Pod>(pod("again", &format!("echo $$$$ > {}; {FOREVER}", world.path("pid")), json!({})))
        .await;
    world.pod("again", "the pod is ready", is_ready).await;
    let pid = read_when_there(&world.path("pid")).await;
    world.stop_node().await;
    assert!(!is_alive(&pid));
    world.start_node();
    world.pod("again", "the container runs again", |pod| restarts(pod) == 1 && is_ready(pod)).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn environment_and_volumes_come_from_config_maps() {
    let world = World::start().await;
    let script = format!("echo \"$NAME $GREETING $ARG\"; cat \"$1\"; {FOREVER}");
    let mut spec = pod(
        "configured",
        "",
        json!({
            "command": ["/bin/sh", "-c", script, "sh"],
            "args": ["/etc/app/motd"],
            "env": [
                {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "GREETING", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "greeting"}}},
                {"name": "ARG", "value": "<$(GREETING)>"}],
            "volumeMounts": [{"name": "files", "mountPath": "/etc/app"}],
        }),
    );
    spec["spec"]["volumes"] = json!([{"name": "files", "configMap": {"name": "files"}}]);
    world.create::<Pod>(spec).await;
    let files = json!({"metadata": {"name": "files"}, "data": {"motd": "first\n"}});
    world
        .pod("configured", "the missing volume is named", |pod| {
            waiting(pod).is_some_and(|(reason, message)| {
                reason == "ContainerCreating" && message.contains("configmap \"files\" not found")
            })
        })
        .await;
    world.create::<ConfigMap>(files).await;
    world
        .pod("configured", "the missing ConfigMap is named", |pod| {
            waiting(pod)
                == Some(("CreateContainerConfigError".into(), "configmap \"settings\" not found".into()))
        })
        .await;
    world.create::<ConfigMap>(json!({"metadata": {"name": "settings"}, "data": {"greeting": "hi"}})).await;
    world.pod("configured", "the pod is ready", is_ready).await;
    eventually("the script has printed", async || {
        let text = world.logs("configured", LogOptions::default()).await;
        (text == "configured hi <hi>\nfirst\n").then_some(()).ok_or(text)
    })
    .await;
    let change = Patch::Merge(json!({"data": {"motd": "second\n"}}));
    world.api::<ConfigMap>().patch("files", &PatchParams::default(), &change).await.unwrap();
    let uid = world.api::<Pod>().get("configured").await.unwrap().metadata.uid.unwrap();
    let mounted =
        world.data_dir().join("pods/default/configured").join(uid).join("containers/main/root/etc/app/motd");
    eventually("the mounted file follows its ConfigMap", async || {
        let text = fs::read_to_string(&mounted).unwrap_or_default();
        (text == "second\n").then_some(()).ok_or(text)
    })
    .await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_get_a_token_of_their_service_account() {
    let world = World::start().await;
    let script = format!(
        "cat \"$CAUSEWAY_SERVICEACCOUNT_DIR/namespace\"; test -s \"$CAUSEWAY_SERVICEACCOUNT_DIR/token\" && echo; echo ok; {FOREVER}"
    );
    world.create::<Pod>(pod("access", &script, json!({}))).await;
    world.pod("access", "the pod is ready", is_ready).await;
    eventually("the credentials are there", async || {
        let text = world.logs("access", LogOptions::default()).await;
        (text == "default\nok\n").then_some(()).ok_or(text)
    })
    .await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_images_say_what_is_missing() {
    let world = World::start().await;
    world.create::<Pod>(pod("foreign", "true", json!({"image": "nginx:1"}))).await;
    let stuck = world
        .pod("foreign", "the pod says why", |pod| condition(pod, "causeway.dev/Runnable").is_some())
        .await;
    assert_eq!(phase(&stuck), "Pending");
    let (reason, message) = waiting(&stuck).unwrap();
    assert_eq!(reason, "UnsupportedImage");
    assert!(message.contains("nginx:1") && message.contains("Docker or Podman"), "{message}");
    world.delete_pod("foreign", 0).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn init_containers_run_in_order_and_policies_decide_the_phase() {
    let world = World::start().await;
    let order = world.path("order");
    let mut spec = pod("steps", &format!("echo main >> {order}; exit 0"), json!({}));
    let init = |name: &str, script: String| {
        let mut init = container(&script, json!({}));
        init["name"] = json!(name);
        init
    };
    // The second one fails once, and is tried again.
    let flaky = format!("echo two >> {order}; test $(grep -c two {order}) -gt 1");
    spec["spec"]["initContainers"] = json!([init("one", format!("echo one >> {order}")), init("two", flaky)]);
    spec["spec"]["restartPolicy"] = json!("OnFailure");
    world.create::<Pod>(spec).await;
    let done = world.pod("steps", "the pod succeeds", |pod| phase(pod) == "Succeeded").await;
    assert_eq!(fs::read_to_string(&order).unwrap(), "one\ntwo\ntwo\nmain\n");
    assert_eq!(condition(&done, "Initialized").unwrap().0, "True");

    let mut failing = pod("once", "exit 7", json!({}));
    failing["spec"]["restartPolicy"] = json!("Never");
    world.create::<Pod>(failing).await;
    let failed = world.pod("once", "the pod fails", |pod| phase(pod) == "Failed").await;
    let state = failed.status.unwrap().container_statuses.unwrap()[0].state.clone().unwrap();
    assert_eq!(state.terminated.unwrap().exit_code, 7);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_liveness_probe_restarts_after_the_hook() {
    let world = World::start().await;
    let (sick, hook) = (world.path("sick"), world.path("hook"));
    let extra = json!({
        "livenessProbe": {"exec": {"command": ["/bin/sh", "-c", format!("test ! -f {sick}")]}, "periodSeconds": 1, "failureThreshold": 1},
        "lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", format!("rm -f {sick}; echo done > {hook}")]}}},
    });
    world.create::<Pod>(pod("sickly", FOREVER, extra)).await;
    world.pod("sickly", "the pod is ready", is_ready).await;
    fs::write(&sick, "").unwrap();
    world.pod("sickly", "the container is restarted", |pod| restarts(pod) == 1 && is_ready(pod)).await;
    assert!(Path::new(&hook).exists());
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_does_not_exist_says_so() {
    let world = World::start().await;
    let mut spec = pod("nothing", "", json!({"command": ["/does/not/exist"]}));
    spec["spec"]["restartPolicy"] = json!("Never");
    world.create::<Pod>(spec).await;
    let failed = world.pod("nothing", "the pod fails", |pod| phase(pod) == "Failed").await;
    let state =
        failed.status.unwrap().container_statuses.unwrap()[0].state.clone().unwrap().terminated.unwrap();
    assert_eq!(state.reason.as_deref(), Some("StartError"));
    assert!(state.message.unwrap().contains("/does/not/exist"));
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_image_restarts_the_container_in_place() {
    let world = World::start().await;
    world.create::<Pod>(pod("upgrade", FOREVER, json!({}))).await;
    let before = world.pod("upgrade", "the pod is ready", is_ready).await;
    let patch =
        Patch::Strategic(json!({"spec": {"containers": [{"name": "main", "image": "example.test/own:2"}]}}));
    world.api::<Pod>().patch("upgrade", &PatchParams::default(), &patch).await.unwrap();
    let after =
        world.pod("upgrade", "the container is restarted", |pod| restarts(pod) == 1 && is_ready(pod)).await;
    assert_eq!(before.metadata.uid, after.metadata.uid);
    assert_eq!(after.status.unwrap().container_statuses.unwrap()[0].image, "example.test/own:2");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_keeper_takes_its_process_along_and_the_container_is_restarted() {
    let world = World::start().await;
    let pid_file = world.path("pid");
    world.create::<Pod>(pod("kept", &format!("echo $$$$ > {pid_file}; {FOREVER}"), json!({}))).await;
    let up = world.pod("kept", "the pod is ready", is_ready).await;
    let pid = read_when_there(&pid_file).await;
    let attempt =
        world.data_dir().join("pods/default/kept").join(up.metadata.uid.unwrap()).join("containers/main/0");
    let record: serde_json::Value =
        serde_json::from_slice(&fs::read(attempt.join("record.json")).unwrap()).unwrap();
    let keeper = record["shim"]["pid"].as_i64().unwrap() as i32;
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(keeper).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    eventually(
        "the process ends with its keeper",
        async || {
            if is_alive(&pid) { Err(String::new()) } else { Ok(()) }
        },
    )
    .await;
    let again = world.pod("kept", "it runs again", |pod| restarts(pod) == 1 && is_ready(pod)).await;
    let status = &again.status.unwrap().container_statuses.unwrap()[0];
    let last = status.last_state.as_ref().unwrap().terminated.as_ref().unwrap();
    assert_eq!(last.reason.as_deref(), Some("ContainerStatusUnknown"));
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sidecars_start_first_and_end_last() {
    let world = World::start().await;
    let order = world.path("order");
    let mut sidecar = container(
        &format!("trap 'echo side-end >> {order}; exit 0' TERM; echo side >> {order}; {FOREVER}"),
        json!({"restartPolicy": "Always", "startupProbe": {"exec": {"command": ["/bin/sh", "-c", format!("test -f {order}")]}, "periodSeconds": 1}}),
    );
    sidecar["name"] = json!("side");
    let script = format!("trap 'echo main-end >> {order}; exit 0' TERM; echo main >> {order}; {FOREVER}");
    let mut spec = pod("pair", &script, json!({}));
    spec["spec"]["initContainers"] = json!([sidecar]);
    world.create::<Pod>(spec).await;
    world.pod("pair", "the pod is ready", is_ready).await;
    // A container without a probe is ready before its first line has run.
    eventually("both have begun", async || match fs::read_to_string(&order).unwrap() {
        said if said == "side\nmain\n" => Ok(()),
        said => Err(said),
    })
    .await;
    world.delete_pod("pair", 10).await;
    eventually("the pod is gone", async || {
        let pod = world.api::<Pod>().get_opt("pair").await.unwrap();
        if pod.is_some() { Err("still there".to_owned()) } else { Ok(()) }
    })
    .await;
    assert_eq!(fs::read_to_string(&order).unwrap(), "side\nmain\nmain-end\nside-end\n");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_can_not_be_set_up_says_so_and_is_tried_again() {
    let world = World::start().await;
    let in_the_way = world.data_dir().join("pods/default/stuck");
    fs::create_dir_all(in_the_way.parent().unwrap()).unwrap();
    fs::write(&in_the_way, "").unwrap();
    world.create::<Pod>(pod("stuck", FOREVER, json!({}))).await;
    eventually("an Event tells why", async || {
        let events = world.api::<Event>().list(&ListParams::default()).await.unwrap();
        let told = events.iter().any(|event| {
            event.reason.as_deref() == Some("FailedCreatePodSandBox")
                && event.message.as_deref().is_some_and(|text| text.contains("can't be set up in"))
        });
        told.then_some(()).ok_or("none")
    })
    .await;
    fs::remove_file(&in_the_way).unwrap();
    world.pod("stuck", "it runs once it can", is_ready).await;
    world.delete_pod("stuck", 0).await;
    world.finish().await;
}
