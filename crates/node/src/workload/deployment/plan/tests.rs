use k8s_openapi::{api::apps::v1::ReplicaSetStatus, apimachinery::pkg::apis::meta::v1::Time};

use super::*;

/// A small world: a Deployment, its ReplicaSets, and a clock; pods appear and become available as told.
struct World {
    deployment: Deployment,
    sets: Vec<ReplicaSet>,
    second: i64,
    scaled: Vec<String>,
}

impl World {
    fn new(spec: Value) -> Self {
        let mut whole = json!({
            "replicas": 4,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}},
        });
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let deployment = serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "ns", "uid": "d", "generation": 1, "annotations": {"note": "x"}},
            "spec": whole,
        }));
        Self { deployment: deployment.unwrap(), sets: Vec::new(), second: 1000, scaled: Vec::new() }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.second).unwrap()
    }

    fn set_image(&mut self, image: &str) {
        let spec = self.deployment.spec.as_mut().unwrap().template.spec.as_mut().unwrap();
        spec.containers[0].image = Some(image.into());
        self.deployment.metadata.generation =
            self.deployment.metadata.generation.map(|generation| generation + 1);
    }

    /// Plans once and carries it out; true when something changed.
    fn step(&mut self, old_pods: bool) -> bool {
        self.second += 1;
        let plan = plan(&self.deployment, &self.sets, old_pods, self.now());
        let changed = !plan.actions.is_empty();
        for action in plan.actions {
            match action {
                Action::Create(mut set) => {
                    set.metadata.uid = Some(format!("uid-{}", self.second));
                    set.metadata.creation_timestamp = Some(Time(self.now()));
                    set.metadata.generation = Some(1);
                    set.status = Some(ReplicaSetStatus {
                        observed_generation: Some(1),
                        ..ReplicaSetStatus::default()
                    });
                    self.sets.push(*set);
                }
                Action::Patch { name, patch } => {
                    let set = self.sets.iter_mut().find(|set| set.name_any() == name).unwrap();
                    if let Some(replicas) = patch["spec"].get("replicas") {
                        set.spec.as_mut().unwrap().replicas = Some(replicas.as_i64().unwrap() as i32);
                    }
                    for (key, value) in patch["metadata"]["annotations"].as_object().into_iter().flatten() {
                        set.annotations_mut().insert(key.clone(), value.as_str().unwrap().to_owned());
                    }
                }
                Action::Delete { name } => self.sets.retain(|set| set.name_any() != name),
            }
        }
        self.scaled.extend(plan.scaled);
        self.deployment.status = Some(plan.status);
        if let Some(revision) = plan.revision {
            self.deployment.annotations_mut().insert(revision::REVISION.into(), revision);
        }
        changed
    }

    /// Every ReplicaSet gets the pods it asks for, all available.
    fn pods_arrive(&mut self) {
        for set in &mut self.sets {
            let size = wanted(set);
            let status = set.status.get_or_insert_default();
            (status.replicas, status.ready_replicas, status.available_replicas) =
                (size, Some(size), Some(size));
        }
    }

    /// ReplicaSets that shrink lose pods at once; new pods come but are not available.
    fn pods_start(&mut self) {
        for set in &mut self.sets {
            let size = wanted(set);
            let status = set.status.get_or_insert_default();
            let available = status.available_replicas.unwrap_or(0).min(size);
            (status.replicas, status.ready_replicas, status.available_replicas) =
                (size, Some(available), Some(available));
        }
    }

    fn settle(&mut self) {
        for _ in 0..100 {
            let changed = self.step(false);
            self.pods_arrive();
            if !changed && !self.step(false) {
                return;
            }
        }
        panic!("the rollout does not settle: {:?}", self.sizes());
    }

    fn sizes(&self) -> Vec<i32> {
        self.sets.iter().map(wanted).collect()
    }

    fn progressing(&self) -> (String, String) {
        let list = self.deployment.status.as_ref().unwrap().conditions.as_ref().unwrap();
        let condition = conditions::get(list, PROGRESSING).unwrap();
        (condition.status.clone(), condition.reason.clone().unwrap())
    }
}

#[test]
fn a_new_deployment_gets_one_set_with_hash_revision_and_owner() {
    let mut world = World::new(json!({}));
    world.step(false);
    let set = &world.sets[0];
    let hash = &set.labels()[POD_TEMPLATE_HASH];
    assert_eq!(set.name_any(), format!("web-{hash}"));
    let spec = set.spec.as_ref().unwrap();
    assert_eq!(&spec.selector.match_labels.as_ref().unwrap()[POD_TEMPLATE_HASH], hash);
    assert_eq!(
        &spec.template.as_ref().unwrap().metadata.as_ref().unwrap().labels.as_ref().unwrap()
            [POD_TEMPLATE_HASH],
        hash
    );
    assert_eq!(set.annotations()[revision::REVISION], "1");
    assert_eq!(set.annotations()[DESIRED_REPLICAS], "4");
    assert_eq!(set.annotations()[MAX_REPLICAS], "5");
    assert_eq!(set.annotations()["note"], "x");
    assert_eq!(set.owner_references()[0].uid, "d");
    assert_eq!(world.progressing(), ("True".into(), "NewReplicaSetCreated".into()));
    world.settle();
    assert_eq!(world.progressing(), ("True".into(), "NewReplicaSetAvailable".into()));
    assert_eq!(world.scaled.len(), 1);
}

#[test]
fn a_rolling_update_stays_within_its_bounds() {
    let cases = [
        (json!({}), 5, 3),
        (json!({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}), 4, 3),
        (json!({"strategy": {"rollingUpdate": {"maxSurge": "50%", "maxUnavailable": 0}}}), 6, 4),
        (json!({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}}), 4, 3),
        (json!({"strategy": {"rollingUpdate": {"maxSurge": "100%", "maxUnavailable": "100%"}}}), 8, 0),
    ];
    for (spec, most, fewest) in cases {
        let mut world = World::new(spec.clone());
        world.settle();
        world.set_image("i:2");
        for round in 0..60 {
            world.step(false);
            let total: i32 = world.sizes().iter().sum();
            assert!(total <= most, "{spec}: {total} pods asked for in round {round}");
            world.pods_start();
            let available: i32 = world.sets.iter().map(rolling::available).sum();
            assert!(available >= fewest, "{spec}: {available} available in round {round}");
            // Pods become available one at a time.
            for set in &mut world.sets {
                let size = wanted(set);
                let status = set.status.as_mut().unwrap();
                if status.available_replicas.unwrap_or(0) < size {
                    status.available_replicas = Some(status.available_replicas.unwrap_or(0) + 1);
                    status.ready_replicas = status.available_replicas;
                }
            }
        }
        assert_eq!(world.sizes(), [0, 4], "{spec}");
        world.settle();
        assert_eq!(world.progressing().1, "NewReplicaSetAvailable", "{spec}");
    }
}

#[test]
fn an_update_that_never_becomes_available_keeps_the_old_pods_and_times_out() {
    let mut world = World::new(json!({"progressDeadlineSeconds": 60}));
    world.settle();
    world.set_image("i:broken");
    for _ in 0..20 {
        world.step(false);
        world.pods_start();
    }
    assert_eq!(world.sizes(), [3, 2]);
    world.second += 100;
    world.step(false);
    assert_eq!(world.progressing(), ("False".into(), "ProgressDeadlineExceeded".into()));
    world.set_image("i:1");
    world.settle();
    assert_eq!(world.sizes(), [4, 0]);
}

#[test]
fn undo_takes_the_old_set_again_with_a_new_revision() {
    let mut world = World::new(json!({}));
    world.settle();
    world.set_image("i:2");
    world.settle();
    assert_eq!(world.deployment.annotations()[revision::REVISION], "2");
    world.set_image("i:1");
    world.settle();
    assert_eq!(world.sizes(), [4, 0], "no third set is made");
    assert_eq!(world.sets[0].annotations()[revision::REVISION], "3");
    assert_eq!(world.sets[0].annotations()[revision::REVISION_HISTORY], "1");
    assert_eq!(world.deployment.annotations()[revision::REVISION], "3");
}

#[test]
fn recreate_waits_for_the_last_old_pod() {
    let mut world = World::new(json!({"strategy": {"type": "Recreate"}}));
    world.settle();
    world.set_image("i:2");
    world.step(true);
    assert_eq!(world.sizes(), [0]);
    world.pods_arrive();
    world.step(true);
    assert_eq!(world.sizes(), [0], "old pods are still there");
    world.step(false);
    assert_eq!(world.sizes(), [0, 4]);
}

#[test]
fn scaling_in_the_middle_of_a_rollout_is_proportional() {
    let mut world = World::new(
        json!({"replicas": 10, "strategy": {"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}}),
    );
    world.settle();
    world.set_image("i:broken");
    for _ in 0..10 {
        world.step(false);
        world.pods_start();
    }
    assert_eq!(world.sizes(), [8, 5]);
    world.deployment.spec.as_mut().unwrap().replicas = Some(15);
    world.step(false);
    assert_eq!(world.sizes(), [11, 7]);
    world.deployment.spec.as_mut().unwrap().replicas = Some(0);
    world.step(false);
    assert_eq!(world.sizes(), [0, 0]);
}

#[test]
fn a_paused_deployment_scales_but_does_not_roll() {
    let mut world = World::new(json!({}));
    world.settle();
    world.deployment.spec.as_mut().unwrap().paused = Some(true);
    world.set_image("i:2");
    world.deployment.spec.as_mut().unwrap().replicas = Some(6);
    world.settle();
    assert_eq!(world.sizes(), [6]);
    assert_eq!(world.progressing(), ("Unknown".into(), "DeploymentPaused".into()));
    world.deployment.spec.as_mut().unwrap().paused = None;
    world.settle();
    assert_eq!(world.sizes(), [0, 6]);
}

#[test]
fn history_beyond_the_limit_is_removed_oldest_first() {
    let mut world = World::new(json!({"revisionHistoryLimit": 2}));
    for image in ["i:1", "i:2", "i:3", "i:4", "i:5"] {
        world.set_image(image);
        world.settle();
    }
    let revisions: Vec<_> =
        world.sets.iter().map(|set| set.annotations()[revision::REVISION].clone()).collect();
    assert_eq!(revisions, ["3", "4", "5"]);
}

#[test]
fn nothing_happens_twice_and_nothing_while_deleting() {
    let mut world = World::new(json!({}));
    world.settle();
    assert!(!world.step(false));
    let before = world.deployment.status.clone().unwrap();
    world.step(false);
    assert!(
        status::same(&before, world.deployment.status.as_ref().unwrap()),
        "a status without news is not written"
    );
    world.deployment.metadata.deletion_timestamp = Some(Time(world.now()));
    world.set_image("i:2");
    assert!(!world.step(false));
}
