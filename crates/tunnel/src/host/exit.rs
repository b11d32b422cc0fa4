//! A tunnel's way out on the host: knows the service's endpoints, and whether anybody answers there, so that the
//! client end can refuse clients instead of keeping them waiting. It looks by itself, again and again: a service that
//! died is not to be found out by a client.

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use causeway_base::backoff::{Backoff, spread};
use causeway_base::lock::lock;
use causeway_ir::tunnel::{Tunnel, TunnelProtocol};
use rustix::io::Errno;
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};

use super::{HostEnd, TunnelState, listening};
use crate::control::{Listen, Listener};
use crate::tally::Tally;

/// How many endpoints one stream tries.
const TRIES: usize = 3;
/// The pauses between looks at a service that does not answer.
const PROBE: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
/// The pause between looks at one that does. Streams that get their answer are as good as a look.
const CHECK: Duration = Duration::from_secs(3);

/// A tunnel as it is asked for, and where its streams go.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) tunnel: Tunnel,
    pub(super) targets: Vec<SocketAddr>,
}

impl Wanted {
    fn new(tunnel: Tunnel) -> Self {
        let addresses = |ready: bool| {
            let usable = tunnel.endpoints.iter().filter(|one| if ready { one.ready } else { one.serving });
            usable.filter_map(|endpoint| endpoint.address.socket()).collect::<Vec<_>>()
        };
        let ready = addresses(true);
        // Those that are about to go are better than nobody.
        let targets = if ready.is_empty() { addresses(false) } else { ready };
        Self { tunnel, targets }
    }
}

/// Why a stream could not be connected.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) text: String,
    /// This process lacks something; that says nothing of the service.
    pub(super) is_own: bool,
}

/// One tunnel's way out.
pub(super) struct Exit {
    pub(super) tally: Arc<Tally>,
    wanted: watch::Sender<Arc<Wanted>>,
    state: Mutex<State>,
    /// The target to begin with.
    turn: AtomicUsize,
    /// There is reason to look soon.
    doubt: Arc<Notify>,
}

struct State {
    /// Why nobody answers; none when somebody does.
    fault: Option<String>,
    /// When somebody answered last.
    answered: Option<Instant>,
    /// Targets for datagrams where nobody listens.
    deaf: HashSet<SocketAddr>,
}

impl Exit {
    /// A new tunnel: nobody is known to answer until the first look.
    pub(super) fn start(end: &Arc<HostEnd>, tunnel: Tunnel) -> Arc<Self> {
        let exit = Arc::new(Self {
            tally: Arc::default(),
            wanted: watch::channel(Arc::new(Wanted::new(tunnel))).0,
            state: Mutex::new(State {
                fault: Some("not tried yet".to_owned()),
                answered: None,
                deaf: HashSet::new(),
            }),
            turn: AtomicUsize::new(0),
            doubt: Arc::default(),
        });
        let (this, end) = (Arc::downgrade(&exit), Arc::downgrade(end));
        tokio::spawn(watch_over(this, end, exit.follow(), exit.doubt.clone()));
        exit
    }

    /// The tunnel is asked for in another shape; new streams follow at once.
    pub(super) fn change(&self, tunnel: Tunnel) {
        let (old, new) = (self.wanted(), Wanted::new(tunnel));
        if old.targets != new.targets {
            // What the old ones said does not count for the new ones.
            lock(&self.state).answered = None;
        }
        if old.tunnel != new.tunnel {
            self.wanted.send_replace(Arc::new(new));
        }
    }

    pub(super) fn wanted(&self) -> Arc<Wanted> {
        self.wanted.borrow().clone()
    }

    /// For those who want to know when the tunnel is asked for in another shape, or no more.
    pub(super) fn follow(&self) -> watch::Receiver<Arc<Wanted>> {
        self.wanted.subscribe()
    }

    /// What the client end is told.
    pub(super) fn listen(&self) -> Listen {
        let wanted = self.wanted();
        Listen::new(&wanted.tunnel, lock(&self.state).fault.is_none() && !wanted.targets.is_empty())
    }

    /// How the tunnel stands, given what the client end says of its port.
    pub(super) fn state(&self, listener: Option<&Result<Listener, String>>) -> TunnelState {
        let Listener { port, open } = match listener {
            None => return TunnelState::Pending,
            Some(Err(error)) => return TunnelState::Failed { error: error.clone() },
            Some(Ok(listener)) => *listener,
        };
        match &lock(&self.state).fault {
            _ if self.wanted().targets.is_empty() => TunnelState::NoEndpoints { port },
            Some(error) => TunnelState::Unreachable { port, error: error.clone() },
            None if open => TunnelState::Listening { port },
            // The client end has still to hear that somebody answers.
            None => TunnelState::Pending,
        }
    }

    /// The next target for datagrams: one where somebody listens, as far as is known.
    pub(super) fn next_target(&self, wanted: &Wanted) -> Option<SocketAddr> {
        let (targets, turn) = (&wanted.targets, self.turn.fetch_add(1, Relaxed));
        let in_turn = || (0..targets.len()).map(|offset| targets[(turn + offset) % targets.len()]);
        let state = lock(&self.state);
        in_turn().find(|target| !state.deaf.contains(target)).or_else(|| in_turn().next())
    }

    /// Connects to one of the targets.
    pub(super) async fn connect(&self, wanted: &Wanted) -> Result<TcpStream, Failure> {
        let targets = &wanted.targets;
        let first = self.turn.fetch_add(1, Relaxed);
        let mut failure = Failure { text: "there is no endpoint".to_owned(), is_own: false };
        for offset in 0..targets.len().min(TRIES) {
            let target = targets[(first + offset) % targets.len()];
            match causeway_link::connect(target, wanted.tunnel.connect_timeout.get()).await {
                Ok(socket) => {
                    lock(&self.state).answered = Some(Instant::now());
                    return Ok(socket);
                }
                Err(error) => {
                    failure = Failure { text: format!("{target}: {error}"), is_own: is_own(&error) };
                }
            }
        }
        Err(failure)
    }

    /// A stream that began to connect at `began` found nobody. That says nothing if somebody has answered since, or if
    /// it failed for want of something here.
    pub(super) fn found_fault(&self, end: &HostEnd, began: Instant, failure: Failure) {
        self.tally.failed(failure.text.clone());
        let mut state = lock(&self.state);
        if failure.is_own || state.answered.is_some_and(|answered| answered >= began) {
            return;
        }
        let is_news = state.fault.replace(failure.text).is_none();
        drop(state);
        if is_news {
            self.doubt.notify_one();
            end.changed();
        }
    }

    /// The host of a target for datagrams said that nobody listens there.
    pub(super) fn is_deaf(&self, target: SocketAddr) {
        if lock(&self.state).deaf.insert(target) {
            self.doubt.notify_one();
        }
    }

    /// Looks whether anybody answers: why not, if nobody does. None if nothing can be said.
    async fn look(&self, end: &HostEnd, wanted: &Wanted) -> Option<Result<(), String>> {
        if wanted.targets.is_empty() {
            return Some(Ok(()));
        }
        match wanted.tunnel.protocol {
            TunnelProtocol::Tcp => match self.connect(wanted).await {
                Ok(_) => Some(Ok(())),
                Err(failure) if failure.is_own => None,
                Err(failure) => Some(Err(failure.text)),
            },
            TunnelProtocol::Udp => {
                let known = lock(&self.state).deaf.clone();
                let deaf = listening::deaf(&wanted.targets, &known, &end.bound_ports).await;
                let mut state = lock(&self.state);
                // What clients were told meanwhile counts too.
                let since: Vec<_> = state.deaf.difference(&known).copied().collect();
                state.deaf = deaf;
                state.deaf.extend(since);
                let fault = wanted
                    .targets
                    .iter()
                    .all(|target| state.deaf.contains(target))
                    .then(|| format!("{}: nobody listens there for datagrams", wanted.targets[0]));
                drop(state);
                Some(fault.map_or(Ok(()), Err))
            }
        }
    }

    /// Whether a stream got its answer just now; the last look is longer ago.
    fn is_sure(&self) -> bool {
        let state = lock(&self.state);
        state.fault.is_none() && state.answered.is_some_and(|answered| answered.elapsed() < CHECK / 2)
    }

    /// Takes what a look at `tried` that began at `began` found; says whether anybody answers and whether that is news.
    fn looked(&self, tried: &Arc<Wanted>, began: Instant, mut found: Result<(), String>) -> (bool, bool) {
        let mut state = lock(&self.state);
        if state.answered.is_some_and(|answered| answered >= began) {
            // A stream has found somebody since, perhaps where the look did not.
            found = Ok(());
        }
        let is_well = found.is_ok();
        // Nothing follows from what was tried if something else is wanted by now.
        if !Arc::ptr_eq(&self.wanted.borrow(), tried) {
            return (is_well, false);
        }
        let fault = found.err();
        let is_news = state.fault != fault;
        state.fault = fault;
        (is_well, is_news)
    }
}

/// Whether a connect failed for want of something in this process or on this host.
fn is_own(error: &io::Error) -> bool {
    const OWN: [Errno; 5] = [Errno::MFILE, Errno::NFILE, Errno::ADDRNOTAVAIL, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| OWN.contains(&errno))
}

/// Looks again and again until the tunnel is gone: seldom while all is well, often while it is not.
async fn watch_over(
    exit: Weak<Exit>,
    end: Weak<HostEnd>,
    mut wanted: watch::Receiver<Arc<Wanted>>,
    doubt: Arc<Notify>,
) {
    let mut retries = PROBE.retries();
    let mut pause = Duration::ZERO;
    loop {
        let is_due = tokio::select! {
            () = sleep(pause) => true,
            changed = wanted.changed() => {
                if changed.is_err() {
                    return;
                }
                true
            }
            () = doubt.notified() => false,
        };
        if !is_due {
            // Soon, and not at once: whoever failed was the first of many.
            retries.reset();
            pause = retries.next_delay();
            continue;
        }
        let tried = wanted.borrow_and_update().clone();
        let (Some(this), Some(end)) = (exit.upgrade(), end.upgrade()) else { return };
        if !this.is_sure() {
            let began = Instant::now();
            let found = tokio::select! {
                found = this.look(&end, &tried) => found,
                _ = wanted.changed() => {
                    // What the old targets would have said does not matter any more.
                    wanted.mark_changed();
                    continue;
                }
            };
            if let Some(found) = found {
                let (is_well, is_news) = this.looked(&tried, began, found);
                if is_news {
                    end.changed();
                }
                if !is_well {
                    pause = retries.next_delay();
                    continue;
                }
            }
        }
        retries.reset();
        pause = spread(CHECK);
    }
}

#[cfg(test)]
mod tests {
    use causeway_ir::{Endpoint, Name};
    use tokio::net::TcpListener;

    use super::*;
    use crate::host::tests::silent_end;

    fn tunnel(endpoints: Vec<Endpoint>) -> Tunnel {
        Tunnel { endpoints, ..Tunnel::new(1, Name::parse("web").expect("a name")) }
    }

    fn failure(errno: Errno) -> Failure {
        let error = io::Error::from(errno);
        Failure { text: error.to_string(), is_own: is_own(&error) }
    }

    /// Waits until the client end would be told that the tunnel is open, or that it is not.
    async fn until_open(end: &HostEnd, exit: &Exit, open: bool) {
        let mut changed = end.changed.subscribe();
        while exit.listen().open != open {
            changed.changed().await.expect("the end is there");
        }
    }

    #[test]
    fn endpoints_that_are_ready_come_before_those_that_go() {
        let at = |port: u16| Endpoint::new(SocketAddr::from(([127, 0, 0, 1], port)));
        let going = |port| Endpoint { ready: false, terminating: true, ..at(port) };
        let gone = |port| Endpoint { serving: false, ..going(port) };
        let ports = |endpoints: Vec<Endpoint>| -> Vec<u16> {
            Wanted::new(tunnel(endpoints)).targets.iter().map(SocketAddr::port).collect()
        };
        assert_eq!(ports(vec![at(1), going(2), gone(3), at(4)]), [1, 4]);
        assert_eq!(ports(vec![going(2), gone(3)]), [2]);
        assert!(ports(vec![gone(3)]).is_empty());
    }

    #[tokio::test]
    async fn a_failure_that_began_before_the_last_answer_closes_nothing() {
        let (listener, end) = (TcpListener::bind("127.0.0.1:0").await.expect("a port"), silent_end());
        let before = Instant::now();
        let address = listener.local_addr().expect("an address");
        let exit = Exit::start(&end, tunnel(vec![Endpoint::new(address)]));
        until_open(&end, &exit, true).await;
        exit.found_fault(&end, before, failure(Errno::TIMEDOUT));
        assert!(exit.listen().open, "somebody has answered since");
        assert!(exit.tally.snapshot().last_error.is_some());
        exit.found_fault(&end, Instant::now(), failure(Errno::MFILE));
        assert!(exit.listen().open, "it was not the service that lacked something");
        exit.found_fault(&end, Instant::now(), failure(Errno::CONNREFUSED));
        assert!(!exit.listen().open, "nobody has answered since");
        until_open(&end, &exit, true).await;
    }

    #[tokio::test]
    async fn nor_does_a_look_that_failed_while_a_stream_was_answered() {
        let (listener, end) = (TcpListener::bind("127.0.0.1:0").await.expect("a port"), silent_end());
        let address = listener.local_addr().expect("an address");
        let exit = Exit::start(&end, tunnel(vec![Endpoint::new(address)]));
        until_open(&end, &exit, true).await;
        let began = Instant::now();
        exit.connect(&exit.wanted()).await.expect("a stream is answered");
        let found = exit.looked(&exit.wanted(), began, Err("three others time out".to_owned()));
        assert_eq!((found, exit.listen().open), ((true, false), true));
    }

    #[tokio::test]
    async fn a_service_that_dies_is_noticed_without_a_client() {
        let (listener, end) = (TcpListener::bind("127.0.0.1:0").await.expect("a port"), silent_end());
        let address = listener.local_addr().expect("an address");
        let exit = Exit::start(&end, tunnel(vec![Endpoint::new(address)]));
        until_open(&end, &exit, true).await;
        drop(listener);
        until_open(&end, &exit, false).await;
        let _again = TcpListener::bind(address).await.expect("the same port");
        until_open(&end, &exit, true).await;
    }

    #[tokio::test]
    async fn so_is_one_for_datagrams() {
        let (socket, end) = (tokio::net::UdpSocket::bind("127.0.0.1:0").await.expect("a port"), silent_end());
        let address = socket.local_addr().expect("an address");
        let datagrams = Tunnel { protocol: TunnelProtocol::Udp, ..tunnel(vec![Endpoint::new(address)]) };
        let exit = Exit::start(&end, datagrams);
        until_open(&end, &exit, true).await;
        drop(socket);
        until_open(&end, &exit, false).await;
        let _again = tokio::net::UdpSocket::bind(address).await.expect("the same port");
        until_open(&end, &exit, true).await;
    }
}
