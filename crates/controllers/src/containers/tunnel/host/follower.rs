//! Sees to it that a host end runs, and follows what it says: one that runs already is adopted, one that died is started
//! again, one of another program is replaced as soon as it carries no stream.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use causeway_base::Backoff;
use rustix::process::Signal;
use tokio::{
    process::Child,
    sync::{Notify, watch},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::{
    Control, HostProgram, Record, end, end_if_idle, files,
    protocol::{Line, LinkState, Order, PROTOCOL, Status},
};

/// Between two starts of a process that dies.
const RETRY: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(15));
/// How long a process may take to answer, on a machine that is busy, before it is killed.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often it is looked whether a process answers that was just started.
const LOOK: Duration = Duration::from_millis(20);
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
                    tracing::warn!(pid = record.process.pid, "a host end does not answer and is killed");
                    // The next look says whether it is gone.
                    let _ = record.signal(Signal::KILL);
                    since = Instant::now();
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
        let mut first = match timeout(PATIENCE, control.next()).await {
            Ok(line) => line?,
            Err(_) => return self.replace("says nothing that can be understood").await,
        };
        let mut differs = None;
        let mut asked: Option<Instant> = None;
        loop {
            match first.take() {
                Some(Line::Status(status)) if status.protocol != PROTOCOL => {
                    return self.replace("speaks another protocol").await;
                }
                Some(Line::Status(status)) => {
                    let differs = *differs.get_or_insert_with(|| self.program.differs_from(status.pid));
                    let is_due = asked.is_none_or(|asked| asked.elapsed() > REPLACE);
                    if differs && status.streams == 0 && is_due {
                        asked = Some(Instant::now());
                        control.order(Order::EndIfIdle).await?;
                    }
                    self.see(Seen { status: Some(*status), error: None });
                }
                Some(Line::Answer { .. }) => {}
                None => return Ok(()),
            }
            while first.is_none() {
                tokio::select! {
                    line = control.next() => match line? {
                        Some(line) => first = Some(line),
                        None => return Ok(()),
                    },
                    () = self.reload.notified() => drop(control.order(Order::Reload).await?),
                }
            }
        }
    }

    /// Ends a process that nothing can be asked of.
    async fn replace(&self, why: &str) -> io::Result<()> {
        tracing::warn!(directory = %self.directory.display(), why, "a host end is replaced");
        let plan = std::fs::read(self.directory.join(files::PLAN))?;
        end(&self.directory, Duration::ZERO).await?;
        causeway_base::file::replace(&self.directory.join(files::PLAN), causeway_base::file::PRIVATE, &plan)
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
