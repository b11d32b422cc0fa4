//! The thread that makes leases durable, so that others are answered while the disk is at work. One group is on its way at a
//! time; what comes meanwhile is the next one.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, eventfd};

use super::outbox::Reply;
use crate::lease::Lease;
use crate::store::Store;

/// What the thread is told.
enum Job {
    /// Leases, and the replies to be sent when they are on disk.
    Commit(Vec<Lease>, Vec<Reply>),
    /// All leases, to take the place of a log that is mostly history or can't be written on.
    Rewrite(Vec<Lease>),
}

/// A job that is over.
pub(super) enum Done {
    /// A group, and whether it is on disk.
    Committed { result: io::Result<()>, replies: Vec<Reply>, wants_rewrite: bool },
    /// The log was written anew, or the old one goes on.
    Rewritten(io::Result<()>),
}

/// The thread, seen from the server's. Dropped, it ends when its job is over.
pub(super) struct Writer {
    /// None only while it is dropped.
    job_tx: Option<Sender<Job>>,
    done_rx: Receiver<Done>,
    bell: Arc<OwnedFd>,
    is_busy: bool,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(store: Store) -> io::Result<Self> {
        let (job_tx, job_rx) = channel(); // server → writer
        let (done_tx, done_rx) = channel(); // writer → server
        let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let rings = Arc::clone(&bell);
        let thread = std::thread::Builder::new().name("leases".into());
        let thread = thread.spawn(move || write(store, &job_rx, &done_tx, &rings))?;
        Ok(Self { job_tx: Some(job_tx), done_rx, bell, is_busy: false, thread: Some(thread) })
    }

    /// Readable when a job is over.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    pub(super) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Whether the thread has ended, which it never should.
    pub(super) fn is_lost(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Has a group made durable; only while it is not busy.
    pub(super) fn commit(&mut self, changes: Vec<Lease>, replies: Vec<Reply>) {
        self.job(Job::Commit(changes, replies));
    }

    /// Has the log written anew; only while it is not busy.
    pub(super) fn rewrite(&mut self, leases: Vec<Lease>) {
        self.job(Job::Rewrite(leases));
    }

    fn job(&mut self, job: Job) {
        // Only a thread that has ended takes none; then it is busy for ever, and nobody is told anything.
        let _ = self.job_tx.as_ref().map(|job_tx| job_tx.send(job));
        self.is_busy = true;
    }

    /// The job that is over, if it is.
    pub(super) fn done(&mut self) -> Option<Done> {
        // First, and always: it may ring for a job that was found to be over before it did.
        let _ = rustix::io::read(&self.bell, &mut [0_u8; 8]);
        let done = self.done_rx.try_recv().ok()?;
        self.is_busy = false;
        Some(done)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.job_tx = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed where it was.
            let _ = thread.join();
        }
    }
}

fn write(mut store: Store, job_rx: &Receiver<Job>, done_tx: &Sender<Done>, bell: &OwnedFd) {
    while let Ok(job) = job_rx.recv() {
        let done = match job {
            Job::Commit(changes, replies) => {
                let result = store.commit(&changes);
                Done::Committed { result, replies, wants_rewrite: store.wants_rewrite() }
            }
            Job::Rewrite(leases) => Done::Rewritten(store.rewrite(&leases)),
        };
        let _ = done_tx.send(done);
        let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
    }
}
