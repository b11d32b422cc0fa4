use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

use super::*;

/// One lease with optimistic locking, as an API server keeps it.
#[derive(Clone, Default)]
struct FakeLease(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    lease: Option<Value>,
    version: u64,
    /// Nobody reaches it.
    is_cut: bool,
    /// How long an answer is under way.
    delay: Duration,
}

impl FakeLease {
    fn client(&self) -> Client {
        let fake = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let fake = fake.clone();
            async move {
                let method = request.method().clone();
                let bytes = request.into_body().collect_bytes().await.unwrap();
                let (code, answer) = fake.answer(&method, &bytes);
                let delay = fake.0.lock().unwrap().delay;
                sleep(delay).await;
                let body = Body::from(answer.to_string().into_bytes());
                Ok::<_, std::convert::Infallible>(Response::builder().status(code).body(body).unwrap())
            }
        });
        Client::new(service, "ns")
    }

    fn answer(&self, method: &Method, body: &[u8]) -> (u16, Value) {
        let mut state = self.0.lock().unwrap();
        let fail = |code: u16| {
            let reason = if code == 404 { "NotFound" } else { "Other" };
            (code, json!({"status": "Failure", "code": code, "reason": reason, "message": "no"}))
        };
        if state.is_cut {
            return fail(503);
        }
        if *method == Method::GET {
            return state.lease.clone().map_or_else(|| fail(404), |lease| (200, lease));
        }
        let mut lease: Value = serde_json::from_slice(body).unwrap();
        let current = state.lease.as_ref().map(|lease| lease["metadata"]["resourceVersion"].clone());
        match current {
            Some(_) if *method == Method::POST => return fail(409),
            Some(version) if version != lease["metadata"]["resourceVersion"] => return fail(409),
            _ => {}
        }
        state.version += 1;
        lease["metadata"]["resourceVersion"] = json!(state.version.to_string());
        state.lease = Some(lease.clone());
        (200, lease)
    }

    fn cut(&self, unreachable: bool) {
        self.0.lock().unwrap().is_cut = unreachable;
    }

    fn slow(&self, delay: Duration) {
        self.0.lock().unwrap().delay = delay;
    }

    fn holder(&self) -> Option<String> {
        let state = self.0.lock().unwrap();
        state.lease.as_ref()?["spec"]["holderIdentity"].as_str().map(str::to_owned)
    }

    fn elector(&self, identity: &str) -> Elector {
        Elector::new(self.client(), Config::new("ns", "operator", identity))
    }
}

fn lease(holder: Option<&str>, version: &str, seconds: i32) -> Lease {
    let spec = LeaseSpec {
        holder_identity: holder.map(str::to_owned),
        lease_duration_seconds: Some(seconds),
        lease_transitions: Some(3),
        // A clock that is an hour behind must not matter.
        renew_time: Some(MicroTime(Timestamp::now() - jiff::SignedDuration::from_hours(1))),
        ..LeaseSpec::default()
    };
    let metadata = ObjectMeta {
        name: Some("operator".into()),
        resource_version: Some(version.into()),
        ..ObjectMeta::default()
    };
    Lease { metadata, spec: Some(spec) }
}

#[tokio::test]
async fn a_lease_expires_by_the_local_clock_only() {
    let mut elector = FakeLease::default().elector("b");
    let start = Instant::now();
    let wall = Timestamp::now();
    let after = |seconds| start + Duration::from_secs(seconds);
    let follows = Step::Follow { holder: "a".into() };
    assert_eq!(elector.step(Some(&lease(Some("a"), "1", 15)), start, wall), follows);
    assert_eq!(elector.step(Some(&lease(Some("a"), "1", 15)), after(14), wall), follows);
    assert_eq!(elector.step(Some(&lease(Some("a"), "2", 15)), after(16), wall), follows, "it was renewed");
    assert_eq!(elector.step(Some(&lease(Some("a"), "2", 15)), after(30), wall), follows);
    let Step::Write(taken) = elector.step(Some(&lease(Some("a"), "2", 15)), after(31), wall) else {
        panic!("an unchanged lease must be taken over after its duration");
    };
    let spec = taken.spec.unwrap();
    assert_eq!((spec.holder_identity.as_deref(), spec.lease_transitions), (Some("b"), Some(4)));
    assert_eq!(
        taken.metadata.resource_version.as_deref(),
        Some("2"),
        "the write must fail if someone else wrote"
    );
}

#[tokio::test]
async fn the_holders_promise_counts_and_a_released_lease_is_free() {
    let mut elector = FakeLease::default().elector("b");
    let (start, wall) = (Instant::now(), Timestamp::now());
    let long = lease(Some("a"), "1", 60);
    elector.step(Some(&long), start, wall);
    let later = start + Duration::from_secs(59);
    assert!(matches!(elector.step(Some(&long), later, wall), Step::Follow { .. }));
    assert!(matches!(elector.step(Some(&lease(None, "2", 1)), later, wall), Step::Write(_)));
}

#[tokio::test(start_paused = true)]
async fn the_second_candidate_waits_and_takes_over_on_release() {
    let fake = FakeLease::default();
    let stop = CancellationToken::new();
    let mut first = fake.elector("a");
    assert!(first.acquire(&stop, |_| {}).await);

    let mut second = fake.elector("b");
    let second_stop = CancellationToken::new();
    let waiting =
        tokio::spawn(async move { second.acquire(&second_stop, |leader| assert_eq!(leader, "a")).await });
    let first_stop = stop.clone();
    let holding = tokio::spawn(async move {
        let end = first.hold(&first_stop).await;
        (first, end)
    });
    // The clock is paused: it runs as fast as the two can act.
    sleep(Duration::from_mins(2)).await;
    assert!(!holding.is_finished(), "the leader keeps its lease");
    assert!(!waiting.is_finished(), "the leader renews, so nobody takes over");

    stop.cancel();
    let (mut first, end) = holding.await.unwrap();
    assert_eq!(end, End::Shutdown);
    first.release().await.unwrap();
    assert!(waiting.await.unwrap());
    assert_eq!(fake.holder().as_deref(), Some("b"));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_before_anyone_may_take_over() {
    let fake = FakeLease::default();
    let stop = CancellationToken::new();
    let mut leader = fake.elector("a");
    assert!(leader.acquire(&stop, |_| {}).await);
    fake.cut(true);
    let started = Instant::now();
    assert_eq!(leader.hold(&stop).await, End::Lost);
    let took = started.elapsed();
    let config = Config::new("ns", "operator", "a");
    assert!(took <= config.renew_deadline && took + config.grace() <= config.lease, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_was_taken_stops_at_the_next_look() {
    let fake = FakeLease::default();
    let stop = CancellationToken::new();
    let mut leader = fake.elector("a");
    assert!(leader.acquire(&stop, |_| {}).await);
    let mut stolen = lease(Some("thief"), "1", 15);
    stolen.metadata.resource_version = Some("1".into());
    let body = serde_json::to_vec(&stolen).unwrap();
    assert_eq!(fake.answer(&Method::PUT, &body).0, 200);
    assert_eq!(leader.hold(&stop).await, End::Lost);
    leader.release().await.unwrap();
    assert_eq!(fake.holder().as_deref(), Some("thief"), "another holder's lease is not released");
}

#[tokio::test(start_paused = true)]
async fn the_time_that_the_acquiring_answer_took_is_part_of_the_term() {
    let fake = FakeLease::default();
    let stop = CancellationToken::new();
    let config = Config::new("ns", "operator", "a");
    let mut leader = fake.elector("a");
    fake.slow(Duration::from_secs(4));
    let asked = Instant::now();
    assert!(leader.acquire(&stop, |_| {}).await);
    assert!(asked.elapsed() >= Duration::from_secs(8), "a look and a write");
    fake.cut(true);
    assert_eq!(leader.hold(&stop).await, End::Lost);
    assert!(asked.elapsed() <= config.renew_deadline, "{:?}", asked.elapsed());
}
