use std::sync::Mutex;

use causeway_base::lock::lock;
use futures::channel::mpsc;
use kube::client::Body;
use prometheus_client::registry::Registry;

use super::*;

/// Counts its looks, and fails those that it is told to.
struct Fake {
    changes: Mutex<Option<mpsc::UnboundedReceiver<watcher::Result<()>>>>,
    looks: Arc<Mutex<Vec<Instant>>>,
    fails: Option<Failure>,
}

#[derive(Clone, Copy)]
enum Failure {
    /// Worth another try.
    Passing,
    /// For good, but something else has a time.
    Timed(Duration),
}

impl Overseer for Fake {
    const NAME: &'static str = "fake";
    const CHILDREN: &'static [ChildKind] = &[];
    const READS: &'static [ChildKind] = &[];

    fn changes(&self, _: &Client) -> Vec<Changes> {
        lock(&self.changes).take().into_iter().map(futures::StreamExt::boxed).collect()
    }

    async fn reconcile(&self, _: &Children) -> Result<Option<Duration>, Failed> {
        lock(&self.looks).push(Instant::now());
        match self.fails {
            None => Ok(None),
            Some(Failure::Passing) => Err(Error::NotSynced { kind: "Thing", seconds: 1 }.into()),
            Some(Failure::Timed(again)) => {
                let status = kube::core::Status::failure("no", "Invalid").with_code(422);
                let source = kube::Error::Api(Box::new(status));
                let error = Error::ChangeTarget { kind: "Thing", name: "one".to_owned(), source };
                Err(Failed { error, again: Some(again) })
            }
        }
    }
}

/// How often a controller looks in the time after a first look, while something changes every millisecond for a second.
async fn looks(fails: Option<Failure>, time: Duration) -> usize {
    let (changes_tx, changes_rx) = mpsc::unbounded();
    let looks: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let fake = Fake { changes: Mutex::new(Some(changes_rx)), looks: looks.clone(), fails };
    let client = Client::new(
        tower::service_fn(|_: http::Request<Body>| {
            std::future::pending::<Result<http::Response<Body>, http::Error>>()
        }),
        "default",
    );
    let metrics = Metrics::register(&mut Registry::default());
    let stop = CancellationToken::new();
    let running = run(Arc::new(fake), client, Config::default(), metrics, Health::default(), stop.clone());
    let changing = async {
        for _ in 0..1000 {
            let _ = changes_tx.unbounded_send(Ok(()));
            sleep(Duration::from_millis(1)).await;
        }
        sleep(time).await;
        stop.cancel();
    };
    futures::join!(running, changing);
    let count = lock(&looks).len();
    drop(changes_tx);
    count
}

#[tokio::test(start_paused = true)]
async fn changes_that_come_together_are_taken_together() {
    let count = looks(None, Duration::from_secs(10)).await;
    assert!((10..=60).contains(&count), "{count} looks for a second of changes");
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_followed_by_a_rest_and_by_another_try() {
    let count = looks(Some(Failure::Passing), Duration::from_secs(10)).await;
    assert!((3..=20).contains(&count), "{count} looks in eleven seconds");
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_for_good_does_not_stop_the_clock_of_the_rest() {
    let before = looks(Some(Failure::Timed(Duration::from_secs(20))), Duration::from_secs(10)).await;
    let after = looks(Some(Failure::Timed(Duration::from_secs(20))), Duration::from_secs(110)).await;
    assert!(after >= before + 4, "{before} looks, and {after} a hundred seconds later");
}
