//! Who a host end is. It writes this itself, once it holds the lock: an operator that dies while it starts one leaves no
//! process that the next operator can't find.

use std::{fs, io, path::Path};

use causeway_base::file;
use causeway_containers::Identity;
use causeway_ir::tunnel::files;
use jiff::Timestamp;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// A host end on record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The process: pid, start time and boot.
    pub process: Identity,
    /// Since when it runs.
    pub started_at: Timestamp,
}

impl Record {
    /// A record of the calling process, written into `directory`.
    ///
    /// # Errors
    /// When the process can't be read from `/proc`, or the file can't be written.
    pub fn write_own(directory: &Path) -> io::Result<Self> {
        let record = Self { process: Identity::own()?, started_at: Timestamp::now() };
        let text = serde_json::to_vec(&record)?;
        file::replace(&directory.join(files::RECORD), file::PRIVATE, &text)?;
        Ok(record)
    }

    /// The host end of `directory`, if it runs. A record that makes no sense is none: what it was of still holds the lock,
    /// so that there is never a second one.
    ///
    /// # Errors
    /// When the file can't be read.
    pub(crate) fn of_running(directory: &Path) -> io::Result<Option<Self>> {
        let text = match fs::read(directory.join(files::RECORD)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let record = serde_json::from_slice::<Self>(&text).inspect_err(|error| {
            let path = directory.join(files::RECORD);
            tracing::warn!(path = %path.display(), %error, "a host end's record makes no sense");
        });
        Ok(record.ok().filter(|record| record.process.is_alive()))
    }

    /// Sends the process a signal; one that has ended is fine.
    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        let Some(pid) = Pid::from_raw(self.process.pid) else { return Ok(()) };
        match pidfd_open(pid, PidfdFlags::empty()) {
            // Compared after opening: from here on the handle can't come to mean another process.
            Ok(handle) if self.process.is_alive() => match pidfd_send_signal(&handle, signal) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
                Err(error) => Err(error.into()),
            },
            Ok(_) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spoiled_record_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let own = Record::write_own(directory.path()).unwrap();
        assert_eq!(Record::of_running(directory.path()).unwrap(), Some(own));
        for spoiled in ["", "{\"process\":", "[]"] {
            fs::write(directory.path().join(files::RECORD), spoiled).unwrap();
            assert_eq!(Record::of_running(directory.path()).unwrap(), None, "{spoiled:?}");
        }
    }
}
