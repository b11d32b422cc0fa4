//! The end of a host end that is asked for: it drains, and it is looked after until it is gone.

use std::{fs, io, path::Path, time::Duration};

use causeway_ir::tunnel::files;
use causeway_ir::tunnel::protocol::{Line, Order};
use rustix::process::Signal;
use tokio::time::{Instant, sleep, timeout};

use super::{Control, Record};

/// How long a host end may take for an order, beside the time for streams.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long the kernel may take to end a process.
const KILL_PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked whether the process is gone.
const LOOK: Duration = Duration::from_millis(20);

/// Ends the host end of `directory`, if one runs: its streams have `drain` to end by themselves. It is gone for certain
/// when this returns.
///
/// # Errors
/// When the process can't be found out about, or does not even end when it is killed.
///
/// # Cancellation
/// Dropped early, the host end may end or not; the same call may be made again.
pub(crate) async fn end(directory: &Path, drain: Duration) -> io::Result<()> {
    // The plan first, so that one that is just being started finds nothing to do.
    remove(directory, files::PLAN)?;
    stop(directory, drain).await
}

/// The same, but the plan stays for the next.
pub(super) async fn stop(directory: &Path, drain: Duration) -> io::Result<()> {
    let Some(record) = Record::of_running(directory)? else {
        // One whose record is spoiled answers all the same; if none does, there is none.
        let _ = timeout(drain + PATIENCE, ask_and_wait(directory, drain)).await;
        return clear(directory);
    };
    // By signal if it can't be asked: it drains then for a time of its own.
    if timeout(PATIENCE, ask(directory, drain)).await.is_ok_and(|asked| asked.is_ok())
        || record.signal(Signal::TERM).is_ok()
    {
        gone(&record, drain + PATIENCE).await;
    }
    if record.process.is_alive() {
        record.signal(Signal::KILL)?;
        gone(&record, KILL_PATIENCE).await;
    }
    if record.process.is_alive() {
        return Err(io::Error::other(format!("process {} does not end", record.process.pid)));
    }
    clear(directory)
}

/// Ends the host end of `directory` unless a stream is open; whether none runs any more.
///
/// # Errors
/// When it can't be asked.
pub(super) async fn end_if_idle(directory: &Path) -> io::Result<bool> {
    let Some(record) = Record::of_running(directory)? else { return Ok(true) };
    let asked = async {
        let mut control = Control::connect(directory).await?;
        let asked = control.order(Order::EndIfIdle).await?;
        loop {
            match control.next().await? {
                Some(Line::Answer { id, accepted }) if id == asked => return Ok::<_, io::Error>(accepted),
                Some(_) => {}
                // It ended before it could answer.
                None => return Ok(true),
            }
        }
    };
    if !timeout(PATIENCE, asked).await?? {
        return Ok(false);
    }
    gone(&record, PATIENCE).await;
    Ok(!record.process.is_alive())
}

async fn ask(directory: &Path, drain: Duration) -> io::Result<Control> {
    let drain_millis = u64::try_from(drain.as_millis()).unwrap_or(u64::MAX);
    let mut control = Control::connect(directory).await?;
    control.order(Order::End { drain_millis }).await?;
    Ok(control)
}

async fn ask_and_wait(directory: &Path, drain: Duration) -> io::Result<()> {
    let mut control = ask(directory, drain).await?;
    while control.next().await?.is_some() {}
    Ok(())
}

async fn gone(record: &Record, limit: Duration) {
    let deadline = Instant::now() + limit;
    while record.process.is_alive() && Instant::now() < deadline {
        sleep(LOOK).await;
    }
}

/// Removes what a process leaves.
fn clear(directory: &Path) -> io::Result<()> {
    remove(directory, files::RECORD)?;
    remove(directory, files::SOCKET)
}

fn remove(directory: &Path, name: &str) -> io::Result<()> {
    match fs::remove_file(directory.join(name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
