use causeway_api::{Infra, InfraSpec};
use kube::core::Status;
use prometheus_client::registry::Registry;
use serde_json::json;

use super::*;
use crate::framework::apply;

/// Fails as often as it is told to, and then works.
struct Fake {
    failures_left: Mutex<u32>,
    /// How long its end keeps a thread busy.
    end_takes: Duration,
    ended: Arc<Mutex<bool>>,
    left: Arc<Mutex<bool>>,
}

impl Reconciler for Fake {
    type Primary = Infra;
    const NAME: &'static str = "fake";
    const CHILDREN: &'static [ChildKind] = &[];

    async fn reconcile(&self, _: Arc<Infra>, _: Children) -> Result<(), Error> {
        let mut left = self.failures_left.lock().unwrap();
        if *left == 0 {
            return Ok(());
        }
        *left -= 1;
        Err(unavailable())
    }

    async fn end(&self) {
        std::thread::sleep(self.end_takes);
        *self.ended.lock().unwrap() = true;
    }

    fn leave(&self) {
        *self.left.lock().unwrap() = true;
    }
}

fn unavailable() -> Error {
    Error::WriteStatus { source: answer(500) }
}

fn objects(code: u16) -> Error {
    let (kind, name) = ("DNSServer", "clusters/lab-dns".to_owned());
    let source = Box::new(apply::Error::Apply { kind, name, source: answer(code) });
    Error::Objects { failed: 1, total: 1, source }
}

fn answer(code: u16) -> kube::Error {
    kube::Error::Api(Status::failure("no", "Reason").with_code(code).boxed())
}

fn fake(failures: u32) -> Fake {
    Fake {
        failures_left: Mutex::new(failures),
        end_takes: Duration::ZERO,
        ended: Arc::default(),
        left: Arc::default(),
    }
}

fn run(failures: u32) -> Run<Fake> {
    Run {
        reconciler: Arc::new(fake(failures)),
        config: Config::default(),
        metrics: Metrics::register(&mut Registry::default()),
        health: Health::default(),
        failures: Mutex::default(),
    }
}

fn infra(name: &str) -> Arc<Infra> {
    let mut infra = Infra::new(name, InfraSpec::default());
    infra.metadata.namespace = Some("clusters".into());
    Arc::new(infra)
}

#[tokio::test]
async fn failures_are_counted_by_object_and_forgotten_on_success() {
    let run = run(3);
    let (lab, other) = (infra("lab"), infra("other"));
    for count in 1..=3 {
        let error = run.reconcile(lab.clone(), Children::fixed(&[])).await.unwrap_err();
        run.policy(&lab, &error);
        assert_eq!(lock(&run.failures).get("clusters/lab"), Some(&count));
    }
    run.policy(&other, &unavailable());
    run.reconcile(lab, Children::fixed(&[])).await.unwrap();
    assert_eq!(lock(&run.failures).keys().collect::<Vec<_>>(), ["clusters/other"]);
    run.forget(&other);
    assert!(lock(&run.failures).is_empty());
}

#[test]
fn only_what_a_retry_can_help_is_retried_soon() {
    let run = run(0);
    let lab = infra("lab");
    run.policy(&lab, &objects(409));
    assert_eq!(lock(&run.failures).len(), 1, "a conflict is tried again with a growing delay");
    run.policy(&lab, &objects(422));
    assert!(lock(&run.failures).is_empty(), "a refused object waits for a change");
}

/// A client of an API server that never answers.
fn no_answer() -> Client {
    let service = tower::service_fn(|_: http::Request<kube::client::Body>| {
        std::future::pending::<Result<http::Response<kube::client::Body>, std::convert::Infallible>>()
    });
    Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_term_is_told_even_if_no_cache_was_ever_filled() {
    let run = run(0);
    let ended = run.reconciler.ended.clone();
    let stop = CancellationToken::new();
    let term = tokio::spawn(run.until(no_answer(), stop.clone()));
    tokio::task::yield_now().await;
    assert!(!*ended.lock().unwrap());
    stop.cancel();
    term.await.unwrap();
    assert!(*ended.lock().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_done_any_more_when_a_run_is_over() {
    let busy = Fake { end_takes: Duration::from_millis(300), ..fake(0) };
    let (ended, left) = (busy.ended.clone(), busy.left.clone());
    // Longer than a controller waits for its reconciles, so that the abort meets it in the middle of its end.
    let config = Config { stop_within: STOP_GRACE + Duration::from_millis(100), ..Config::default() };
    let metrics = Metrics::register(&mut Registry::default());
    let mut runner = Runner::new(no_answer(), config, metrics, Health::default());
    runner.register(busy);
    let stop = CancellationToken::new();
    stop.cancel();
    runner.run(&stop).await;
    assert!(*ended.lock().unwrap(), "its last step is over");
    assert!(*left.lock().unwrap(), "and it knows that its term is");
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_is_aborted_lets_go_all_the_same() {
    let fake = fake(0);
    let (ended, left) = (fake.ended.clone(), fake.left.clone());
    let config = Config { stop_within: Duration::ZERO, ..Config::default() };
    let mut runner =
        Runner::new(no_answer(), config, Metrics::register(&mut Registry::default()), Health::default());
    runner.register(fake);
    let stop = CancellationToken::new();
    let soon = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.cancel();
    };
    futures::join!(runner.run(&stop), soon);
    assert!(!*ended.lock().unwrap() && *left.lock().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_is_never_filled_is_an_error_that_names_the_kind() {
    let kind = ChildKind { group: "", version: "v1", kind: "Secret", plural: "secrets", older: &[] };
    let client = no_answer();
    let (children, _watches) = Children::watch(&client, None, &[kind], &[]);
    let error = run(0).reconcile(infra("lab"), children).await.unwrap_err();
    assert_eq!((error.category(), error.retry()), (Category::NotSynced, Retry::Backoff));
    assert!(error.to_string().contains("Secret"), "{error}");
}

/// The first objects of a term are reconciled at the same time, and all of them wait for the same caches.
#[tokio::test(start_paused = true)]
async fn everybody_who_waits_for_a_cache_is_woken_when_it_is_filled() {
    let kind = ChildKind { group: "", version: "v1", kind: "Secret", plural: "secrets", older: &[] };
    let client = Client::new(
        tower::service_fn(|request: http::Request<kube::client::Body>| async move {
            if request.uri().query().is_some_and(|query| query.contains("watch=")) {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            let list = json!({
                "kind": "SecretList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [],
            });
            http::Response::builder().body(kube::client::Body::from(list.to_string().into_bytes()))
        }),
        "default",
    );
    let (children, watches) = Children::watch(&client, None, &[kind], &[]);
    let mut watches = stream::select_all(watches.into_iter().map(|(_, watch)| watch));
    let polling = tokio::spawn(async move { while watches.next().await.is_some() {} });
    let mut waiting = JoinSet::new();
    for _ in 0..4 {
        let children = children.clone();
        waiting.spawn(async move { children.ready(Duration::from_secs(30)).await });
    }
    waiting.spawn(async move { children.filled().await.then_some(()).ok_or_else(unavailable) });
    let started = Instant::now();
    assert!(waiting.join_all().await.iter().all(Result::is_ok));
    assert!(started.elapsed() < Duration::from_secs(2), "took {:?}", started.elapsed());
    polling.abort();
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_nobody_has_defined_has_no_objects() {
    let kind =
        ChildKind { group: "nobody.example", version: "v1", kind: "Thing", plural: "things", older: &[] };
    let client = Client::new(
        tower::service_fn(|_: http::Request<kube::client::Body>| async {
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "reason": "NotFound", "code": 404, "message": "404 page not found",
            });
            let body = kube::client::Body::from(status.to_string().into_bytes());
            http::Response::builder().status(404).body(body)
        }),
        "default",
    );
    let filled = async |made: &[ChildKind], read: &[ChildKind]| {
        let (children, watches) = Children::watch(&client, None, made, read);
        let mut watches = stream::select_all(watches.into_iter().map(|(_, watch)| watch));
        let polling = async { while watches.next().await.is_some() {} };
        let ready = tokio::select! {
            ready = children.ready(Duration::from_secs(5)) => ready.is_ok(),
            () = polling => false,
        };
        (ready, children.all(kind).len())
    };
    assert_eq!(filled(&[], &[kind]).await, (true, 0), "what is only read may be missing");
    assert_eq!(filled(&[kind], &[]).await, (false, 0), "what is made may not");
}

/// Asked for a list about once a second, a cluster without the Gateway API would be kept busy for nothing.
#[tokio::test(start_paused = true)]
async fn a_kind_that_nobody_has_defined_is_asked_for_ever_more_seldom() {
    let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = asked.clone();
    let client = Client::new(
        tower::service_fn(move |_: http::Request<kube::client::Body>| {
            counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            async {
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                    "reason": "NotFound", "code": 404, "message": "404 page not found",
                });
                let body = kube::client::Body::from(status.to_string().into_bytes());
                http::Response::builder().status(404).body(body)
            }
        }),
        "default",
    );
    let kind = crate::grants::REFERENCE_GRANT;
    let (children, watches) = Children::watch(&client, None, &[], &[kind]);
    let mut watches = stream::select_all(watches.into_iter().map(|(_, watch)| watch));
    let polling = async { while watches.next().await.is_some() {} };
    let _ = tokio::time::timeout(Duration::from_hours(1), polling).await;
    let times = asked.load(std::sync::atomic::Ordering::Relaxed);
    // Two versions, and half a minute on average between two rounds.
    assert!((20..600).contains(&times), "asked {times} times in an hour");
    assert!(children.served(kind).is_none());
}
