//! Tasks that serve one request after the other: a task for each would be made, moved and given back with every request,
//! and it is as large as all that a request may come to.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::task::spawn_local;

/// Tasks that wait for work, at most.
const KEPT: usize = 256;

/// The tasks of a core that wait for work.
pub(crate) struct Hands<J> {
    idle: RefCell<Vec<Rc<Hand<J>>>>,
    /// How few of them waited since the last sweep: so many are not needed.
    spare: Cell<usize>,
}

impl<J> Default for Hands<J> {
    fn default() -> Self {
        Self { idle: RefCell::default(), spare: Cell::new(0) }
    }
}

/// One of them.
struct Hand<J> {
    job: Cell<Option<J>>,
    is_over: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

impl<J> Hand<J> {
    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Waits for the next job, or for the end.
    fn poll(&self, cx: &Context<'_>) -> Poll<Option<J>> {
        match self.job.take() {
            Some(job) => Poll::Ready(Some(job)),
            None if self.is_over.get() => Poll::Ready(None),
            None => {
                self.waker.set(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    }
}

impl<J: 'static> Hands<J> {
    /// Has a task do this work.
    pub(crate) fn give<F: Future<Output = ()> + 'static>(self: &Rc<Self>, job: J, work: fn(J) -> F) {
        let idle = self.idle.borrow_mut().pop();
        self.spare.set(self.spare.get().min(self.idle.borrow().len()));
        if let Some(hand) = idle {
            hand.job.set(Some(job));
            hand.wake();
            return;
        }
        let hand = Hand { job: Cell::new(Some(job)), is_over: Cell::new(false), waker: Cell::default() };
        spawn_local(serve(Rc::new(hand), Rc::clone(self), work));
    }

    /// Takes a task back that has done its work; whether it is kept.
    fn take_back(&self, hand: &Rc<Hand<J>>) -> bool {
        let mut idle = self.idle.borrow_mut();
        let is_kept = idle.len() < KEPT;
        if is_kept {
            idle.push(Rc::clone(hand));
        }
        is_kept
    }

    /// Ends those that had nothing to do since the last time.
    pub(crate) fn sweep(&self) {
        let mut idle = self.idle.borrow_mut();
        let spare = self.spare.get().min(idle.len());
        // Those that were given back last are given out first.
        for hand in idle.drain(..spare) {
            hand.is_over.set(true);
            hand.wake();
        }
        self.spare.set(idle.len());
    }
}

async fn serve<J: 'static, F: Future<Output = ()>>(hand: Rc<Hand<J>>, hands: Rc<Hands<J>>, work: fn(J) -> F) {
    while let Some(job) = poll_fn(|cx| hand.poll(cx)).await {
        work(job).await;
        if !hands.take_back(&hand) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;
    use tokio::task::{LocalSet, yield_now};

    use super::*;

    type Job = (oneshot::Receiver<()>, oneshot::Sender<tokio::task::Id>);

    async fn work((go_rx, done_tx): Job) {
        let _ = go_rx.await;
        let _ = done_tx.send(tokio::task::id());
    }

    fn job() -> (oneshot::Sender<()>, oneshot::Receiver<tokio::task::Id>, Job) {
        let (go_tx, go_rx) = oneshot::channel();
        let (done_tx, done_rx) = oneshot::channel();
        (go_tx, done_rx, (go_rx, done_tx))
    }

    #[tokio::test]
    async fn a_task_does_one_job_after_the_other_and_ends_when_there_are_none() {
        let test = async {
            let hands = Rc::new(Hands::<Job>::default());
            let mut ids = Vec::new();
            for _ in 0..5 {
                let (go_tx, done_rx, job) = job();
                hands.give(job, work);
                go_tx.send(()).unwrap();
                ids.push(done_rx.await.unwrap());
                yield_now().await;
            }
            assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");

            // Two at a time take two.
            let (first, second) = (job(), job());
            hands.give(first.2, work);
            hands.give(second.2, work);
            second.0.send(()).unwrap();
            first.0.send(()).unwrap();
            assert_ne!(first.1.await.unwrap(), second.1.await.unwrap());
            yield_now().await;
            assert_eq!(hands.idle.borrow().len(), 2);

            // Each sweep ends those that the time before it did not need.
            hands.sweep();
            hands.sweep();
            assert_eq!(hands.idle.borrow().len(), 0);
            tokio::time::timeout(Duration::from_secs(5), async {
                while Rc::strong_count(&hands) > 1 {
                    yield_now().await;
                }
            })
            .await
            .unwrap();
        };
        LocalSet::new().run_until(test).await;
    }

    #[tokio::test]
    async fn no_more_wait_than_are_kept() {
        let test = async {
            let hands = Rc::new(Hands::<Job>::default());
            let all: Vec<_> = (0..KEPT + 10)
                .map(|_| {
                    let (go_tx, done_rx, job) = job();
                    hands.give(job, work);
                    (go_tx, done_rx)
                })
                .collect();
            for (go_tx, done_rx) in all {
                go_tx.send(()).unwrap();
                done_rx.await.unwrap();
            }
            yield_now().await;
            assert_eq!(hands.idle.borrow().len(), KEPT);
        };
        LocalSet::new().run_until(test).await;
    }
}
