//! Takes Services over and gives them back. The original is written beside the change, in the same request, with proof; what was
//! set back by others is noticed, told, and taken over again, ever more seldom; and a Service whose carrier does not serve is given
//! back, so that its traffic never stops.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Mutex,
    time::Duration,
};

use causeway_api::names;
use causeway_base::{Backoff, lock::lock};
use causeway_translate::intercept::{
    front::{carrier_name, original_name},
    names::taken,
};
use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    authority::Keys,
    carrier::Standing,
    neighbourhood::Namespace,
    seal::Whose,
    workloads::{begun_annotations, is_refusal},
};
use crate::framework::error::Error;

type Selector = BTreeMap<String, String>;

/// How long is waited before a Service is taken over again that somebody has set back.
const FIGHT: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(5));
/// After so much peace the next time is the first again.
const PEACE: Duration = Duration::from_mins(10);

/// What is known of the Services of a namespace.
#[derive(Default)]
pub(crate) struct Seen {
    /// What those that are taken over selected before, if it is known for certain.
    pub(crate) originals: BTreeMap<String, Selector>,
    /// Those that are taken over and of which it is not known.
    pub(crate) lost: Vec<String>,
}

/// Where a Service stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Its carrier has its traffic.
    Taken,
    /// It is about to: what is waited for.
    Taking(String),
    /// Somebody has set it back, who and how.
    TakenBack(String),
    /// It was given back while its carrier does not serve, and why it does not.
    GivenBack(String),
    /// It is not known what it selected before.
    Lost,
    /// Nobody stands in front of it.
    Free,
    /// That will be so in a moment.
    Freeing,
}

/// What a Service is to be brought to.
pub(crate) struct Wish<'a> {
    /// Its original selector, if it is to have a carrier.
    pub(crate) selector: Option<&'a Selector>,
    /// How the carrier stands: those of its pods that the Service would find.
    pub(crate) standing: &'a Standing,
    /// Whether all of it is known to the carrier's pods, the original pods with it.
    pub(crate) is_settled: bool,
}

#[derive(Clone, Debug)]
struct Memory {
    original: Selector,
    /// Whether it was taken over, as far as this process knows.
    is_taken: bool,
    /// The version that the last write made.
    written: Option<u64>,
    failures: u32,
    /// Not before this.
    not_before: Option<Instant>,
    taken_at: Option<Instant>,
    /// Who set it back, in words.
    by: String,
    /// How often its carrier has let it down, and until when it is not relied on again.
    collapses: u32,
    rests_until: Option<Instant>,
}

/// Takes Services over and gives them back.
pub(crate) struct Services {
    client: Client,
    manager: &'static str,
    /// By uid.
    memory: Mutex<HashMap<String, Memory>>,
}

impl Services {
    pub(crate) fn new(client: Client, manager: &'static str) -> Self {
        Self { client, manager, memory: Mutex::default() }
    }

    /// Looks at the Services of a namespace.
    pub(crate) fn see(&self, keys: &Keys, near: &Namespace) -> Seen {
        let all: BTreeMap<String, _> =
            near.services.all().into_iter().map(|service| (service.name_any(), service)).collect();
        let mut seen = Seen::default();
        for (name, service) in all.iter().filter(|(_, service)| is_taken(service)) {
            let twin = all.get(&original_name(name)).map(|twin| &**twin);
            match self.original(keys, service, twin) {
                Some(original) => drop(seen.originals.insert(name.clone(), original)),
                None => seen.lost.push(name.clone()),
            }
        }
        seen
    }

    /// What a Service that is taken over selected before: as is proved beside it, or beside the Service of the original pods, or
    /// as this process knows itself.
    fn original(&self, keys: &Keys, service: &Service, twin: Option<&Service>) -> Option<Selector> {
        let uid = service.uid()?;
        let proved = |of: &Service| {
            let text = of.annotations().get(names::ANNOTATION_ORIGINAL)?;
            keys.sealer.open(Whose { kind: "Service", uid: &uid }, text)
        };
        let known = || lock(&self.memory).get(&uid).map(|memory| memory.original.clone());
        let before: Selector = proved(service).or_else(|| twin.and_then(proved)).or_else(known)?;
        let original = undone(service, &before);
        // What the caches still show of before the last write says nothing of now: a Service that was given back would be one that
        // somebody has set back.
        if self.is_behind(&uid, service) {
            return Some(original);
        }
        let mut memory = lock(&self.memory);
        let memory = memory.entry(uid).or_insert_with(|| Memory::new(before.clone()));
        memory.original = before;
        memory.is_taken = true;
        memory.taken_at.get_or_insert_with(Instant::now);
        Some(original)
    }

    /// The proof of an original, for the Service and for that of its original pods.
    pub(crate) fn seal(keys: &Keys, uid: &str, original: &Selector) -> Option<String> {
        keys.sealer.seal(Whose { kind: "Service", uid }, original)
    }

    /// Forgets those that are gone.
    pub(crate) fn retain(&self, is_there: impl Fn(&str) -> bool) {
        lock(&self.memory).retain(|uid, _| is_there(uid));
    }

    /// Brings a Service nearer to what is wished, and says where it stands.
    ///
    /// # Errors
    /// When the API server does not let it be changed.
    pub(crate) async fn bring(
        &self,
        keys: &Keys,
        near: &Namespace,
        service: &Service,
        wish: &Wish<'_>,
    ) -> Result<Hold, Error> {
        let uid = service.uid().unwrap_or_default();
        if self.is_behind(&uid, service) {
            return Ok(match wish.selector {
                Some(_) => Hold::Taking("the Service is being changed".to_owned()),
                None => Hold::Freeing,
            });
        }
        let situation = self.situation(keys, near, service, wish);
        match decide(&situation) {
            Step::Stay(hold) => Ok(hold),
            Step::Take => {
                let Some(original) = wish.selector else { return Ok(Hold::Free) };
                self.take(keys, service, original).await?;
                Ok(Hold::Taking("the Service leads to its carrier in a moment".to_owned()))
            }
            Step::GiveBack(hold) => {
                self.give_back(keys, near, service).await?;
                if let (Hold::GivenBack(_), Some(memory)) = (&hold, lock(&self.memory).get_mut(&uid)) {
                    memory.collapse();
                }
                Ok(hold)
            }
            Step::Clean => {
                self.clean(service).await?;
                Ok(Hold::Free)
            }
        }
    }

    /// Whether the caches have not shown yet what was written last.
    fn is_behind(&self, uid: &str, service: &Service) -> bool {
        let seen = service.resource_version().and_then(|version| version.parse::<u64>().ok());
        let memory = lock(&self.memory);
        let written = memory.get(uid).and_then(|memory| memory.written);
        written.zip(seen).is_some_and(|(written, seen)| seen < written)
    }

    fn situation(&self, keys: &Keys, near: &Namespace, service: &Service, wish: &Wish<'_>) -> Situation {
        let (name, uid) = (service.name_any(), service.uid().unwrap_or_default());
        let is_ours = is_taken(service);
        let slices = near.slices.all();
        let of = |name: &str| {
            let name = name.to_owned();
            slices.iter().filter(move |slice| is_of(slice, &name)).map(|slice| &**slice)
        };
        let originals = ready(of(&original_name(&name)));
        let own: Vec<(String, Option<String>)> = ready(of(&name));
        let services = near.services.all();
        let twin = services.iter().find(|one| one.name_any() == original_name(&name));
        let follows = twin.and_then(|twin| twin.spec.as_ref()?.selector.as_ref()) == wish.selector;
        let proof = service.annotations().get(names::ANNOTATION_ORIGINAL);
        let is_proved = proof.is_some_and(|text| {
            keys.sealer.open::<Selector>(Whose { kind: "Service", uid: &uid }, text).is_some()
        });
        let mut memory = lock(&self.memory);
        let known = memory.get_mut(&uid);
        let fight = match known {
            Some(memory) if !is_ours && memory.is_taken => Some(memory.lose(service)),
            Some(memory) if !is_ours && memory.failures > 0 => Some(memory.fight()),
            Some(memory) => {
                memory.calm();
                None
            }
            // Taken over by an earlier process, and set back while none was there.
            None if !is_ours && is_proved => {
                let original =
                    service.spec.as_ref().and_then(|spec| spec.selector.clone()).unwrap_or_default();
                let mut fresh = Memory::new(original);
                let fight = fresh.lose(service);
                memory.insert(uid.clone(), fresh);
                Some(fight)
            }
            None => None,
        };
        let rests = memory.get_mut(&uid).is_some_and(Memory::rests);
        let is_known = !is_ours || memory.get(&uid).is_some();
        let carriers = &wish.standing.ready;
        let found = ready(of(&carrier_name(&name)));
        let is_found = |pod: &String| found.iter().any(|(_, known)| known.as_ref() == Some(pod));
        Situation {
            wanted: wish.selector.is_some(),
            is_ours,
            is_whole: is_wholly_taken(service),
            is_known,
            has_proof: proof.is_some(),
            fight,
            rests,
            carrier_serves: !carriers.is_empty(),
            carrier_is_current: wish.standing.is_current,
            carrier_is_found: carriers.iter().all(is_found),
            carrier_trouble: wish.standing.trouble.clone(),
            originals_are_followed: follows
                && wish.is_settled
                && own.iter().all(|(address, _)| originals.iter().any(|(known, _)| known == address)),
            // Without that Service nobody knows; those that the carrier does not serve either are not worse off.
            originals_serve: !originals.is_empty() || twin.is_none(),
            leads_to_carrier: !own.is_empty()
                && own.iter().all(|(_, pod)| pod.as_ref().is_some_and(|pod| carriers.contains(pod))),
            leads_to_some_carrier: own.iter().any(|(_, pod)| {
                pod.as_ref().is_some_and(|pod| pod.starts_with(&format!("{}-", carrier_name(&name))))
            }),
        }
    }

    /// The original and the change in one request, on nothing but what was looked at.
    async fn take(&self, keys: &Keys, service: &Service, original: &Selector) -> Result<(), Error> {
        let (name, uid) = (service.name_any(), service.uid().unwrap_or_default());
        let Some(sealed) = Self::seal(keys, &uid, original) else { return Ok(()) };
        let mut steps = unchanged(service);
        steps.extend(begun_annotations(&service.metadata));
        steps.push(json!({"op": "add", "path": annotation_path(), "value": sealed}));
        let next = taken(original, &carrier_name(&name));
        steps.push(json!({"op": "replace", "path": "/spec/selector", "value": next}));
        let version = self.patch(service, steps).await?;
        if version.is_some() {
            let mut memory = lock(&self.memory);
            let memory = memory.entry(uid).or_insert_with(|| Memory::new(original.clone()));
            memory.original.clone_from(original);
            memory.is_taken = true;
            memory.written = version;
            memory.taken_at = Some(Instant::now());
            tracing::info!(service = name, "the Service leads to its carrier");
        }
        Ok(())
    }

    async fn give_back(&self, keys: &Keys, near: &Namespace, service: &Service) -> Result<(), Error> {
        let (name, uid) = (service.name_any(), service.uid().unwrap_or_default());
        let services = near.services.all();
        let twin = services.iter().find(|one| one.name_any() == original_name(&name));
        let Some(original) = self.original(keys, service, twin.map(|twin| &**twin)) else { return Ok(()) };
        let mut steps = unchanged(service);
        steps.push(json!({"op": "replace", "path": "/spec/selector", "value": original}));
        if service.annotations().contains_key(names::ANNOTATION_ORIGINAL) {
            steps.push(json!({"op": "remove", "path": annotation_path()}));
        }
        let version = self.patch(service, steps).await?;
        if version.is_some() {
            let mut memory = lock(&self.memory);
            if let Some(memory) = memory.get_mut(&uid) {
                memory.is_taken = false;
                memory.written = version;
                memory.taken_at = None;
            }
            tracing::info!(service = name, "the Service leads to its own pods again");
        }
        Ok(())
    }

    /// Takes away what is left of us on a Service that others have set back.
    async fn clean(&self, service: &Service) -> Result<(), Error> {
        let mut steps = unchanged(service);
        steps.push(json!({"op": "remove", "path": annotation_path()}));
        let version = self.patch(service, steps).await?;
        if let (Some(uid), Some(_)) = (service.uid(), version) {
            lock(&self.memory).remove(&uid);
        }
        Ok(())
    }

    /// The version that a change made; none if the Service is another by now, or gone.
    async fn patch(&self, service: &Service, steps: Vec<Value>) -> Result<Option<u64>, Error> {
        let namespace = service.namespace().unwrap_or_default();
        let api = Api::<Service>::namespaced(self.client.clone(), &namespace);
        let patch = serde_json::from_value(Value::Array(steps)).expect("a list of well-formed operations");
        let params = PatchParams { field_manager: Some(self.manager.to_owned()), ..PatchParams::default() };
        match api.patch(&service.name_any(), &params, &Patch::<()>::Json(patch)).await {
            Ok(changed) => Ok(changed.resource_version().and_then(|version| version.parse().ok())),
            // Somebody was quicker: the watch brings that, and with it the next look.
            Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409) => Ok(None),
            Err(source) if is_refusal(&source) && has_changed(&api, service).await => Ok(None),
            Err(source) => Err(Error::ChangeTarget {
                kind: "Service",
                name: format!("{namespace}/{}", service.name_any()),
                source,
            }),
        }
    }

    /// When a Service should be looked at again though nothing changes. A time that was over when this look `began` was of no use
    /// to it, and is of none to the next.
    pub(crate) fn again(&self, began: Instant) -> Option<Duration> {
        let memory = lock(&self.memory);
        let times = memory.values().flat_map(|memory| [memory.not_before, memory.rests_until]).flatten();
        let next = times.filter(|time| *time > began).min();
        next.map(|time| time.saturating_duration_since(Instant::now()))
    }
}

impl Memory {
    fn new(original: Selector) -> Self {
        Self {
            original,
            is_taken: false,
            written: None,
            failures: 0,
            not_before: None,
            taken_at: None,
            by: String::new(),
            collapses: 0,
            rests_until: None,
        }
    }

    /// Its carrier does not serve: it is not relied on again at once.
    fn collapse(&mut self) {
        self.collapses = self.collapses.saturating_add(1);
        // The first time may be chance.
        let pause = if self.collapses > 1 { FIGHT.delay(self.collapses - 1) } else { Duration::ZERO };
        self.rests_until = Some(Instant::now() + pause);
    }

    fn rests(&mut self) -> bool {
        let rests = self.rests_until.is_some_and(|time| time > Instant::now());
        if !rests {
            self.rests_until = None;
        }
        rests
    }

    /// Somebody has set it back, just now.
    fn lose(&mut self, service: &Service) -> Fight {
        self.is_taken = false;
        self.taken_at = None;
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(Instant::now() + FIGHT.delay(self.failures));
        self.by = who(service);
        self.fight()
    }

    fn fight(&mut self) -> Fight {
        let is_over = self.not_before.is_none_or(|time| time <= Instant::now());
        if is_over {
            self.not_before = None;
        }
        Fight { is_over, by: self.by.clone() }
    }

    /// Counts from the beginning after a long time of peace.
    fn calm(&mut self) {
        if self.taken_at.is_some_and(|since| since.elapsed() > PEACE) {
            self.failures = 0;
            self.collapses = 0;
        }
    }
}

/// Somebody else wants the Service as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fight {
    /// Whether it was left alone for long enough.
    is_over: bool,
    by: String,
}

/// All that decides what is done with a Service.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(Default))]
struct Situation {
    wanted: bool,
    is_ours: bool,
    is_whole: bool,
    is_known: bool,
    has_proof: bool,
    fight: Option<Fight>,
    /// The carrier has let it down again and again, and is given time.
    rests: bool,
    carrier_serves: bool,
    carrier_is_current: bool,
    /// Whoever keeps endpoints knows its pods, too.
    carrier_is_found: bool,
    carrier_trouble: Option<String>,
    originals_are_followed: bool,
    originals_serve: bool,
    leads_to_carrier: bool,
    leads_to_some_carrier: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Stay(Hold),
    Take,
    GiveBack(Hold),
    Clean,
}

/// What is done next.
fn decide(now: &Situation) -> Step {
    match (now.wanted, now.is_ours) {
        (_, true) if !now.is_known => Step::Stay(Hold::Lost),
        (false, true) => Step::GiveBack(Hold::Freeing),
        (false, false) if now.has_proof => Step::Clean,
        (false, false) if now.leads_to_some_carrier => Step::Stay(Hold::Freeing),
        (false, false) => Step::Stay(Hold::Free),
        (true, true) if now.is_whole && !now.carrier_serves && now.originals_serve => {
            let why = now.carrier_trouble.clone().unwrap_or_else(|| "no pod of it is ready".to_owned());
            Step::GiveBack(Hold::GivenBack(why))
        }
        // A mixture selects nothing, and pods that its carrier had before may lack what it selects by now.
        (true, true) if !now.is_whole && now.carrier_serves => Step::Take,
        (true, true) if !now.is_whole => {
            Step::GiveBack(Hold::Taking("its carrier learns what the Service selects".to_owned()))
        }
        (true, true) if now.leads_to_carrier => Step::Stay(Hold::Taken),
        (true, true) => Step::Stay(Hold::Taking("the Service's endpoints follow".to_owned())),
        (true, false) => match &now.fight {
            Some(fight) if !fight.is_over => Step::Stay(Hold::TakenBack(fight.by.clone())),
            _ if now.rests => {
                let why = now.carrier_trouble.clone();
                Step::Stay(Hold::GivenBack(why.unwrap_or_else(|| "it has failed several times".to_owned())))
            }
            _ if !now.carrier_serves || !now.carrier_is_current => {
                let why = now.carrier_trouble.clone().unwrap_or_else(|| "its carrier starts".to_owned());
                Step::Stay(Hold::Taking(why))
            }
            _ if !now.carrier_is_found => {
                Step::Stay(Hold::Taking("its carrier's endpoints follow".to_owned()))
            }
            _ if !now.originals_are_followed => {
                Step::Stay(Hold::Taking("the carrier does not know all original pods yet".to_owned()))
            }
            _ => Step::Take,
        },
    }
}

/// Whether a Service leads to its carrier, or did until somebody changed a part of what it selects.
pub(crate) fn is_taken(service: &Service) -> bool {
    marks(service).any(|is_ours| is_ours)
}

/// Whether nobody has changed a part of it.
fn is_wholly_taken(service: &Service) -> bool {
    is_taken(service) && marks(service).all(|is_ours| is_ours)
}

/// Of each label that it selects by, whether that is a carrier's.
fn marks(service: &Service) -> impl Iterator<Item = bool> {
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.clone()).unwrap_or_default();
    let ours = taken(&selector, &carrier_name(&service.name_any()));
    selector.into_iter().map(move |(key, value)| ours.get(&key) == Some(&value))
}

/// What a Service would select without us: what it did before, with what its owner has changed since.
fn undone(service: &Service, before: &Selector) -> Selector {
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.clone()).unwrap_or_default();
    let ours = taken(&selector, &carrier_name(&service.name_any()));
    let undone = selector.into_iter().filter_map(|(key, value)| {
        let value = if ours.get(&key) == Some(&value) { before.get(&key)?.clone() } else { value };
        Some((key, value))
    });
    undone.collect()
}

/// That nothing of it has changed since it was looked at.
fn unchanged(service: &Service) -> Vec<Value> {
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.clone());
    vec![
        json!({"op": "test", "path": "/metadata/uid", "value": service.metadata.uid}),
        json!({"op": "test", "path": "/spec/selector", "value": selector}),
    ]
}

/// Whether a test of what was looked at has failed; otherwise it is the change itself that somebody refuses.
async fn has_changed(api: &Api<Service>, service: &Service) -> bool {
    let tested = |one: &Service| (unchanged(one), one.metadata.annotations.is_some());
    match api.get_opt(&service.name_any()).await {
        Ok(Some(live)) => tested(&live) != tested(service),
        Ok(None) => true,
        Err(_) => false,
    }
}

fn annotation_path() -> String {
    format!("/metadata/annotations/{}", names::ANNOTATION_ORIGINAL.replace('/', "~1"))
}

fn is_of(slice: &EndpointSlice, service: &str) -> bool {
    slice.labels().get(causeway_base::well_known::SERVICE_NAME_LABEL).is_some_and(|name| name == service)
}

/// The addresses that take connections, each with its pod.
fn ready<'a>(slices: impl Iterator<Item = &'a EndpointSlice>) -> Vec<(String, Option<String>)> {
    let endpoints = slices.flat_map(|slice| &slice.endpoints);
    endpoints
        .filter(|endpoint| {
            let conditions = endpoint.conditions.clone().unwrap_or_default();
            conditions.ready.unwrap_or(true) && conditions.terminating != Some(true)
        })
        .filter_map(|endpoint| {
            let pod = endpoint.target_ref.as_ref().and_then(|target| target.name.clone());
            Some((endpoint.addresses.first()?.clone(), pod))
        })
        .collect()
}

/// Who wrote the selector last, by the managers of its fields.
fn who(service: &Service) -> String {
    let wrote = |entry: &&k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        fields.is_some_and(|fields| fields.pointer("/f:spec/f:selector").is_some())
    };
    let last = service
        .managed_fields()
        .iter()
        .filter(wrote)
        .max_by_key(|entry| entry.time.as_ref().map(|time| time.0));
    last.and_then(|entry| entry.manager.clone()).unwrap_or_else(|| "somebody".to_owned())
}

#[cfg(test)]
mod tests;
