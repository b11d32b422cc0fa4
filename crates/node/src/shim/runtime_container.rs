//! The shim of a container of Docker or Podman: it makes and starts it, copies its output into the pod's log,
//! hands on signals, records how it ended and removes it. When the runtime goes away meanwhile the shim waits for
//! it and then looks at what became of the container.

use std::{
    error::Error,
    io::{self, Write},
    net::IpAddr,
    pin::Pin,
    time::Duration,
};

use causeway_containers::{
    Choice, ContainerSpec, ErrorKind, Identity, LogLine, LogOptions, Output, Runtime, labels,
};
use futures::{Stream, StreamExt};
use jiff::Timestamp;

use super::{
    Asked, Signals,
    log::{LogFile, Stream as LogStream},
    start_error,
};
use crate::process::{Exit, RuntimeContainer, attempt::Attempt};

/// What is still written after the end is read for this long.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);
const REMOVE_LIMIT: Duration = Duration::from_secs(20);
const RETRY: Duration = Duration::from_millis(500);

/// A container that runs.
struct Running {
    runtime: Runtime,
    id: String,
    stop_signal: String,
    address: Option<IpAddr>,
}

/// Runs the container to its end.
pub(super) async fn keep(
    attempt: &Attempt,
    container: &RuntimeContainer,
    mut log: LogFile,
    mut signals: Signals,
) -> Result<(), Box<dyn Error>> {
    let running = match begin(container).await {
        Ok(running) => running,
        Err(message) => {
            attempt.write_exit(&start_error(message.clone()))?;
            println!("{}", message.replace('\n', " "));
            return Ok(());
        }
    };
    if let Some(address) = running.address {
        attempt.write_address(address)?;
    }
    println!("started");
    io::stdout().flush()?;
    let exit = running.watch(&mut log, &mut signals).await;
    log.finish();
    attempt.write_exit(&exit)?;
    // What cannot be removed now is found by its labels later.
    let _ = tokio::time::timeout(REMOVE_LIMIT, running.runtime.remove(&running.id)).await;
    Ok(())
}

/// Makes and starts the container, in the place of what an earlier shim left.
async fn begin(container: &RuntimeContainer) -> Result<Running, String> {
    let runtime = Runtime::connect(&Choice::Socket(container.socket.clone()))
        .await
        .map_err(|error| error.to_string())?;
    let mut spec = container.spec.clone();
    if let Ok(me) = Identity::own() {
        spec.labels.insert(labels::CREATOR.to_owned(), me.to_string());
    }
    remove_earlier(&runtime, &spec).await.map_err(|error| error.report())?;
    let id = runtime.create(&spec).await.map_err(|error| error.report())?;
    let started = async {
        runtime.start(&id).await?;
        runtime.container(&id).await
    };
    match started.await {
        Ok(container) => {
            let first = spec.networks.first().and_then(|first| container.networks.get(&first.network));
            let place = first.or_else(|| container.networks.values().next());
            let address = place.and_then(|place| place.ipv4.or(place.ipv6));
            Ok(Running { runtime, id, stop_signal: container.stop_signal, address })
        }
        Err(error) => {
            let _ = runtime.remove(&id).await;
            Err(error.report())
        }
    }
}

async fn remove_earlier(runtime: &Runtime, spec: &ContainerSpec) -> causeway_containers::Result<()> {
    let same = [labels::INSTANCE, labels::OWNER, crate::pod::CONTAINER_LABEL];
    let same: Vec<(&str, &str)> =
        same.iter().filter_map(|key| Some((*key, spec.labels.get(*key)?.as_str()))).collect();
    if same.len() < 3 {
        return Ok(());
    }
    for container in runtime.containers(&same).await? {
        runtime.remove(&container.id).await?;
    }
    Ok(())
}

type Lines = Pin<Box<dyn Stream<Item = causeway_containers::Result<LogLine>> + Send>>;

impl Running {
    async fn watch(&self, log: &mut LogFile, signals: &mut Signals) -> Exit {
        let mut last = Timestamp::UNIX_EPOCH;
        loop {
            let mut lines = Some(self.lines(last));
            let mut ended = std::pin::pin!(self.runtime.wait(&self.id));
            let outcome = loop {
                tokio::select! {
                    outcome = &mut ended => break outcome,
                    line = next(&mut lines) => copy(log, &mut lines, line, &mut last),
                    asked = signals.next() => self.signal(asked),
                }
            };
            match outcome {
                Ok(code) => {
                    let drain = async {
                        while lines.is_some() {
                            let line = next(&mut lines).await;
                            copy(log, &mut lines, line, &mut last);
                        }
                    };
                    let _ = tokio::time::timeout(DRAIN_LIMIT, drain).await;
                    return self.exit(code).await;
                }
                Err(error) if error.kind() == ErrorKind::NotFound => return removed(),
                Err(_) => {
                    if let Some(exit) = self.wait_for_runtime(signals).await {
                        return exit;
                    }
                }
            }
        }
    }

    /// Waits until the runtime answers; the end of the container if it did not outlive this.
    async fn wait_for_runtime(&self, signals: &mut Signals) -> Option<Exit> {
        loop {
            tokio::select! {
                () = tokio::time::sleep(RETRY) => {}
                asked = signals.next() => self.signal(asked),
            }
            match self.runtime.container(&self.id).await {
                Ok(container) if container.is_running() => return None,
                Ok(container) => return Some(self.exit(container.exit_code.unwrap_or(137)).await),
                Err(error) if error.kind() == ErrorKind::NotFound => return Some(removed()),
                Err(_) => {}
            }
        }
    }

    /// The log from the last second that was seen.
    fn lines(&self, last: Timestamp) -> Lines {
        let since = (last > Timestamp::UNIX_EPOCH).then(|| last.as_second());
        Box::pin(self.runtime.logs(&self.id, LogOptions { follow: true, tail: None, since }))
    }

    /// In a task of its own, so that a runtime that hangs does not keep the log from being read.
    fn signal(&self, asked: Asked) {
        let signal = match asked {
            Asked::Terminate => self.stop_signal.clone(),
            Asked::Interrupt => "SIGINT".to_owned(),
            Asked::HangUp => "SIGHUP".to_owned(),
            Asked::Kill => "SIGKILL".to_owned(),
        };
        let (runtime, id) = (self.runtime.clone(), self.id.clone());
        tokio::spawn(async move { runtime.kill(&id, &signal).await });
    }

    async fn exit(&self, code: i64) -> Exit {
        let out_of_memory = self.runtime.container(&self.id).await.is_ok_and(|ended| ended.out_of_memory);
        let reason = match code {
            _ if out_of_memory => "OOMKilled",
            0 => "Completed",
            _ => "Error",
        };
        Exit {
            code: i32::try_from(code).unwrap_or(255),
            signal: None,
            reason: reason.to_owned(),
            message: None,
            finished_at: Timestamp::now(),
        }
    }
}

fn removed() -> Exit {
    Exit {
        code: 137,
        signal: None,
        reason: "ContainerStatusUnknown".to_owned(),
        message: Some("the container was removed from its runtime".to_owned()),
        finished_at: Timestamp::now(),
    }
}

async fn next(lines: &mut Option<Lines>) -> Option<causeway_containers::Result<LogLine>> {
    match lines {
        Some(lines) => lines.next().await,
        None => std::future::pending().await,
    }
}

/// Writes a line; after a gap the runtime tells the last second again.
fn copy(
    log: &mut LogFile,
    lines: &mut Option<Lines>,
    line: Option<causeway_containers::Result<LogLine>>,
    last: &mut Timestamp,
) {
    let Some(Ok(line)) = line else {
        *lines = None;
        return;
    };
    let time = line.time.as_deref().and_then(|time| time.parse().ok()).unwrap_or_else(Timestamp::now);
    if time < *last {
        return;
    }
    *last = time;
    let stream = match line.output {
        Output::Stdout => LogStream::Stdout,
        Output::Stderr => LogStream::Stderr,
    };
    let mut text = line.text.to_vec();
    text.push(b'\n');
    log.append(stream, &text, time);
}
