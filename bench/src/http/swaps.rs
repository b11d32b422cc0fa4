//! Certificates that are replaced under load: one after the other takes the place of the last, and the gateway is told.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, anyhow};

use super::candidate::Candidate;
use super::certificates::{CHANGES, replace};

/// A certificate in use.
pub(crate) struct Place<'a> {
    pub(crate) gateway: Candidate,
    pub(crate) pids: &'a [u32],
    /// Where the gateway's configuration is.
    pub(crate) dir: &'a Path,
    /// Where the certificates are.
    pub(crate) certificates: &'a Path,
    pub(crate) name: &'a str,
    /// From one to the next.
    pub(crate) every: Duration,
}

/// Replaces a certificate for as long as something is done; what that gave, and how often it was replaced.
pub(crate) fn during<T>(
    place: &Place<'_>,
    work: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<(T, usize)> {
    let (over_tx, over_rx) = channel(); // nothing is said: its end is that of the work
    std::thread::scope(|scope| {
        let replaced = scope.spawn(move || place.change(&over_rx));
        let done = work();
        drop(over_tx);
        let replaced = replaced.join().map_err(|_| anyhow!("whoever replaces certificates crashed"))?;
        Ok((done?, replaced?))
    })
}

impl Place<'_> {
    /// One after the other until it is over, or there is none left.
    fn change(&self, over_rx: &Receiver<()>) -> anyhow::Result<usize> {
        for number in 1..CHANGES {
            if over_rx.recv_timeout(self.every) != Err(RecvTimeoutError::Timeout) {
                return Ok(number - 1);
            }
            replace(self.certificates, self.name, number).context("can't replace a certificate")?;
            self.gateway.tell(self.pids, self.dir, &self.certificates.join(self.name))?;
        }
        Ok(CHANGES - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::certificates::{Certificates, read, read_successors};

    #[test]
    fn certificates_are_replaced_until_the_work_is_done() {
        let certificates = Certificates::new().unwrap();
        let dir = certificates.changing("a.test").unwrap();
        let place = Place {
            gateway: Candidate::Causeway,
            pids: &[],
            dir: &dir,
            certificates: &dir,
            name: "a.test",
            every: Duration::from_millis(1),
        };
        let all = read_successors(&dir).unwrap();
        let shown = || all.iter().position(|one| read(&dir, "a.test").is_ok_and(|now| now == *one));
        let work = || {
            while shown() < Some(3) {
                std::thread::yield_now();
            }
            Ok("done")
        };
        let (said, replaced) = during(&place, work).unwrap();
        assert_eq!((said, shown()), ("done", Some(replaced)));
        let failed = during(&place, || Err::<(), _>(anyhow!("the load failed"))).unwrap_err();
        assert_eq!(failed.to_string(), "the load failed");
    }
}
