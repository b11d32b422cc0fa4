//! Sees to it that a host end runs, and follows what it says: one that runs already is adopted, one that died is started
//! again, one of another program is replaced as soon as it carries no stream. One that is silent is told of and asked
//! again, never killed: it may carry streams, and have no more than a bad time.

use std::{
    future::pending,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use causeway_base::Backoff;
use causeway_ir::tunnel::protocol::{self, Line, Order, Status};
use causeway_ir::tunnel::{LinkState, files};
use tokio::{
    process::Child,
    sync::{Notify, watch},
    task::JoinHandle,
    time::{Instant, sleep, sleep_until},
};

use super::{Control, HostProgram, Record, end_if_idle, ending::stop};

/// Between two starts of a process that dies.
const RETRY: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(15));
/// How long a process may take to say its first word, on a machine that is busy, before that is told.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked whether a process answers that was just started.
const LOOK: Duration = Duration::from_millis(20);
/// Beats that may be missed, on a machine that is busy, before that is told.
const BEATS: u32 = 4;
/// Between two tries to reach a process that takes no connection.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// Between two questions whether a process of another program may be replaced.
const REPLACE: Duration = Duration::from_secs(5);

/// What is known of a host end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// What it said last; none while it does not run.
    pub(crate) status: Option<Status>,
    /// Why it does not run.
    pub(crate) error: Option<String>,
}

impl Seen {
    /// How the link stands.
    pub(crate) fn link(&self) -> LinkState {
        match &self.status {
            Some(status) => status.link.clone(),
            None => LinkState::Connecting { attempt: 0, error: self.error.clone() },
        }
    }
}

/// Follows the host end of one directory. Dropped, it lets the process go on.
pub(crate) struct Follower {
    seen_rx: watch::Receiver<Seen>,
    reload: Arc<Notify>,
    is_held: Arc<AtomicBool>,
    directory: PathBuf,
    task: JoinHandle<()>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Follower {
    /// Begins to follow; there must be a plan in the directory.
    pub(crate) fn start(directory: PathBuf, program: HostProgram) -> Self {
        let (seen_tx, seen_rx) = watch::channel(Seen::default()); // follower → worker
        let reload = Arc::new(Notify::new());
        let is_held = Arc::new(AtomicBool::new(false));
        let follow = Follow {
            directory: directory.clone(),
            program,
            seen_tx,
            reload: reload.clone(),
            is_held: is_held.clone(),
        };
        Self { seen_rx, reload, is_held, directory, task: tokio::spawn(follow.run()) }
    }

    /// What is known of it, as it changes.
    pub(crate) fn seen(&self) -> watch::Receiver<Seen> {
        self.seen_rx.clone()
    }

    /// Ends the host end unless a stream is open; whether it has ended. No other is started then.
    pub(crate) async fn end_if_idle(&self) -> bool {
        self.is_held.store(true, Relaxed);
        let is_ended = end_if_idle(&self.directory).await.unwrap_or(false);
        self.is_held.store(is_ended, Relaxed);
        is_ended
    }

    /// There is another plan.
    pub(crate) fn reload(&self) {
        self.reload.notify_one();
    }
}

struct Follow {
    directory: PathBuf,
    program: HostProgram,
    seen_tx: watch::Sender<Seen>,
    reload: Arc<Notify>,
    /// Whether none is to be started.
    is_held: Arc<AtomicBool>,
}

impl Follow {
    async fn run(self) {
        let mut retries = RETRY.retries();
        let mut child: Option<Child> = None;
        let mut since = Instant::now();
        loop {
            if let Ok(mut control) = Control::connect(&self.directory).await {
                let error = match self.follow(&mut control).await {
                    Ok(()) => "the host end has ended".to_owned(),
                    Err(error) => format!("the host end does not answer: {error}"),
                };
                // One that got that far did not die of its start.
                if self.seen_tx.borrow().link() == LinkState::Up {
                    retries.reset();
                }
                self.see(Seen { status: None, error: Some(error) });
                since = Instant::now();
                continue;
            }
            match self.find(&mut child) {
                Ok(Found::Running(record)) if since.elapsed() > PATIENCE => {
                    self.see_silence(record.process.pid);
                    sleep(ASK_AGAIN).await;
                }
                Ok(Found::Running(_) | Found::Starting) => sleep(LOOK).await,
                Ok(Found::None) if self.is_held.load(Relaxed) => sleep(LOOK).await,
                Ok(Found::None) => {
                    if retries.failures() > 0 {
                        sleep(retries.next_delay()).await;
                    } else {
                        retries.next_delay();
                    }
                    match self.program.start(&self.directory) {
                        Ok(started) => child = Some(started),
                        Err(error) => self.fail(&error),
                    }
                    since = Instant::now();
                }
                Err(error) => {
                    self.fail(&error);
                    child = None;
                    sleep(retries.next_delay()).await;
                }
            }
        }
    }

    /// What there is of a host end that does not answer.
    fn find(&self, child: &mut Option<Child>) -> io::Result<Found> {
        if let Some(record) = Record::of_running(&self.directory)? {
            return Ok(Found::Running(record));
        }
        let Some(started) = child else { return Ok(Found::None) };
        match started.try_wait()? {
            None => Ok(Found::Starting),
            Some(ended) => {
                *child = None;
                let said = last_line(&self.directory.join(files::OUTPUT));
                Err(io::Error::other(format!("it ended with {ended}{said}")))
            }
        }
    }

    /// Follows a process until it ends.
    async fn follow(&self, control: &mut Control) -> io::Result<()> {
        // There may be another plan since it looked last.
        control.order(Order::Reload).await?;
        let mut said: Option<Status> = None;
        let mut upgrade = Upgrade::default();
        let (mut heard, mut is_silent) = (Instant::now(), false);
        loop {
            let beat = said.as_ref().map(|status| status.beat_millis.map(Duration::from_millis));
            let silence = async {
                match beat {
                    _ if is_silent => pending().await,
                    None => sleep_until(heard + PATIENCE).await,
                    Some(Some(beat)) => sleep_until(heard + beat * BEATS).await,
                    // It speaks when there is something to say.
                    Some(None) => pending().await,
                }
            };
            tokio::select! {
                line = control.next() => {
                    match line {
                        Ok(Some(Line::Status(status))) => said = Some(*status),
                        Ok(Some(Line::Answer { .. })) => {}
                        Ok(None) => return Ok(()),
                        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                            return self.replace(&error).await;
                        }
                        Err(error) => return Err(error),
                    }
                    (heard, is_silent) = (Instant::now(), false);
                    let Some(status) = &said else { continue };
                    self.see(Seen { status: Some(status.clone()), error: None });
                    if upgrade.is_due(&self.program, status) {
                        control.order(Order::EndIfIdle).await?;
                    }
                }
                () = self.reload.notified() => drop(control.order(Order::Reload).await?),
                () = silence => {
                    is_silent = true;
                    let record = Record::of_running(&self.directory)?;
                    self.see_silence(record.map_or(0, |record| record.process.pid));
                }
            }
        }
    }

    /// Ends a process that nothing can be asked of, since it speaks another protocol.
    async fn replace(&self, why: &io::Error) -> io::Result<()> {
        tracing::warn!(directory = %self.directory.display(), %why, "a host end is replaced");
        stop(&self.directory, Duration::ZERO).await
    }

    fn see_silence(&self, pid: i32) {
        let error = format!(
            "the host end, process {pid}, does not answer; it is not killed, since it may carry streams, and is found when \
             it does"
        );
        self.see(Seen { status: None, error: Some(error) });
    }

    fn fail(&self, error: &io::Error) {
        self.see(Seen { status: None, error: Some(format!("the host end can't be started: {error}")) });
    }

    fn see(&self, seen: Seen) {
        self.seen_tx.send_if_modified(|known| {
            let differs = *known != seen;
            *known = seen;
            differs
        });
    }
}

/// When a host end of another program is asked to make way.
#[derive(Default)]
struct Upgrade {
    differs: Option<bool>,
    asked: Option<Instant>,
}

impl Upgrade {
    fn is_due(&mut self, program: &HostProgram, status: &Status) -> bool {
        let differs = *self.differs.get_or_insert_with(|| {
            if status.plan < protocol::PLAN {
                let (pid, version) = (status.pid, &status.version);
                tracing::info!(
                    pid,
                    version,
                    "an older host end leaves out what is new in its plan until it carries no stream"
                );
            }
            program.differs_from(status.pid)
        });
        let is_due =
            differs && status.streams == 0 && self.asked.is_none_or(|asked| asked.elapsed() > REPLACE);
        if is_due {
            self.asked = Some(Instant::now());
        }
        is_due
    }
}

enum Found {
    /// A process on record.
    Running(Record),
    /// A process that has not written its record yet.
    Starting,
    None,
}

/// What a process printed last.
fn last_line(output: &Path) -> String {
    let text = std::fs::read_to_string(output).unwrap_or_default();
    text.lines().next_back().map(|line| format!("; it said last: {line}")).unwrap_or_default()
}
