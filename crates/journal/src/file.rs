//! The file and the one who holds it.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use causeway_base::file;
use rustix::fs::{FlockOperation, flock};

use crate::record::{self, MARK_LENGTH, Scan};
use crate::{Contents, Form};

/// Between two attempts to write anew what can't be written on.
const RETRY: Duration = Duration::from_secs(1);
/// Looks at a file that is being written, one after the other: a look may find a record without the one before it.
const LOOKS: usize = 3;
/// The mode of a file that is a group's.
const SHARED: u32 = 0o660;
/// The mode of a directory in which nobody replaces another's files.
const STICKY: u32 = 0o1000;

/// Why a journal can't be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Somebody else writes it.
    #[error("it is in use by another process")]
    InUse,
    /// It is another file.
    #[error("it is a file of another kind")]
    OtherFile,
    /// A newer program wrote it.
    #[error("it has format {0}, which this version does not know")]
    UnknownFormat(u8),
    /// What was acknowledged can't be read any more.
    #[error("it is damaged at byte {0}")]
    Damaged(usize),
    /// It is somebody else's.
    #[error(
        "permission denied: it is of user {uid} and group {gid}, mode {mode:o}; give it to the user who runs this with `chown`"
    )]
    Denied {
        /// Its user.
        uid: u32,
        /// Its group.
        gid: u32,
        /// Who may do what.
        mode: u32,
    },
    /// The file system refuses.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl OpenError {
    fn opening(path: &Path, error: io::Error) -> Self {
        match (error.kind(), std::fs::metadata(path)) {
            (io::ErrorKind::WouldBlock, _) => Self::InUse,
            (io::ErrorKind::PermissionDenied, Ok(file)) => {
                Self::Denied { uid: file.uid(), gid: file.gid(), mode: file.mode() & 0o7777 }
            }
            _ => Self::Io(error),
        }
    }
}

/// Why a record is not on disk.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// It could not be written.
    #[error("{0}")]
    Write(io::Error),
    /// What a failed sync has left on the disk is unknown, so nothing may be written after it before a rewrite.
    #[error("an earlier sync failed ({0}); if that lasts, start again to go on from what is on the disk")]
    Broken(String),
}

impl From<AppendError> for io::Error {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Write(error) => error,
            AppendError::Broken(_) => Self::other(error.to_string()),
        }
    }
}

/// What a journal holds, also while another process writes it.
///
/// # Errors
/// When it can't be read, or is damaged.
pub fn read(path: &Path, form: &Form) -> Result<Contents, OpenError> {
    let mut looks = 0;
    loop {
        looks += 1;
        let mut file = File::open(path).map_err(|error| OpenError::opening(path, error))?;
        let written = file.metadata()?.modified()?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        check_header(&bytes, form)?;
        match Scan::read(&bytes, form) {
            Ok(scan) => return Ok(Contents { bytes, payloads: scan.payloads, written }),
            Err(place) if looks == LOOKS => return Err(OpenError::Damaged(place)),
            Err(_) => {}
        }
    }
}

/// A journal that is written.
pub struct Journal {
    form: &'static Form,
    path: PathBuf,
    file: File,
    /// Where the next record goes.
    end: u64,
    /// Where the zeros end that were written ahead.
    filled: u64,
    /// It is written anew when it reaches this size.
    rewrite_at: u64,
    /// What a failed sync has left on the disk is unknown, so nothing may be written after it: the journal is written anew.
    broken: Option<String>,
    /// When that is tried again.
    retry_at: Instant,
    record: Vec<u8>,
}

impl Journal {
    /// Opens or creates the file, which nobody else can write from then on.
    ///
    /// # Errors
    /// When it can't be used.
    pub fn open(path: &Path, form: &'static Form) -> Result<(Self, Contents), OpenError> {
        let mut file = open_locked(path).map_err(|error| OpenError::opening(path, error))?;
        let written = file.metadata()?.modified()?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        // A crash may have come before the first sync.
        if bytes.len() < form.header.len() && form.header.starts_with(&bytes) {
            file.write_all_at(&form.header, 0)?;
            file.sync_all()?;
            file::sync_directory_of(path)?;
            bytes = form.header.to_vec();
        }
        if check_header(&bytes, form)? {
            file.write_all_at(&form.header, 0)?;
        }
        let Scan { payloads, end, cut } = Scan::read(&bytes, form).map_err(OpenError::Damaged)?;
        if cut > 0 {
            tracing::info!(path = %path.display(), bytes = cut, "dropped a write that was cut short before it was acknowledged");
        }
        // What follows was never acknowledged: a write that a crash cut short, or space that was not used yet.
        let end = end as u64;
        file.set_len(end)?;
        file.sync_all()?;
        let journal = Self {
            form,
            path: path.to_owned(),
            file,
            end,
            filled: end,
            rewrite_at: form.small,
            broken: None,
            retry_at: Instant::now(),
            record: Vec::new(),
        };
        Ok((journal, Contents { bytes, payloads, written }))
    }

    /// How large it is.
    pub fn size(&self) -> u64 {
        self.end
    }

    /// Writes a record, whose bytes `payload` puts behind what is there; durable when this returns.
    ///
    /// # Errors
    /// When it may not be on disk: then nobody may be told of it.
    pub fn append(&mut self, payload: impl FnOnce(&mut Vec<u8>)) -> Result<(), AppendError> {
        if let Some(reason) = &self.broken {
            return Err(AppendError::Broken(reason.clone()));
        }
        record::encode(&mut self.record, self.form, payload);
        let marked = self.end + self.record.len() as u64;
        let end = marked + MARK_LENGTH as u64;
        self.fill(end).map_err(AppendError::Write)?;
        // A write that fails leaves a piece that the next one overwrites, or that a start takes for a cut one.
        self.file.write_all_at(&self.record, self.end).map_err(AppendError::Write)?;
        self.sync().map_err(AppendError::Write)?;
        // It reaches the disk with the next sync. A kill before that loses nothing, and a power failure only what tells
        // damage of this one record from a write cut short.
        let done = self.file.write_all_at(&record::mark(marked), marked);
        self.note(done).map_err(AppendError::Write)?;
        self.end = end;
        Ok(())
    }

    /// Fills space ahead. Where there is none for that, writes extend the file as they come.
    fn fill(&mut self, up_to: u64) -> io::Result<()> {
        if up_to <= self.filled {
            return Ok(());
        }
        let length = self.form.step.max(up_to - self.filled);
        if self.file.write_all_at(&vec![0; length as usize], self.filled).is_ok() {
            self.sync()?;
            self.filled += length;
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let done = self.file.sync_data();
        self.note(done)
    }

    /// As a sync that failed leaves it.
    #[cfg(test)]
    pub(crate) fn break_off(&mut self, reason: &str) {
        self.broken = Some(reason.to_owned());
    }

    fn note(&mut self, done: io::Result<()>) -> io::Result<()> {
        if let Err(error) = &done {
            self.broken = Some(error.to_string());
        }
        done
    }

    /// Says how many bytes are not history: when there are four times as many, the rest is.
    pub fn expect(&mut self, live: u64) {
        self.rewrite_at = self.form.small.max(4 * live);
    }

    /// Whether most of it is history, or nothing can be added to it any more.
    pub fn wants_rewrite(&self) -> bool {
        if self.broken.is_some() { Instant::now() >= self.retry_at } else { self.end >= self.rewrite_at }
    }

    /// Writes the journal anew with nothing but what `write` appends, and takes the old one's place in one step.
    ///
    /// # Errors
    /// When that is not possible; the old one goes on, if it could, and does not want this again soon.
    pub fn rewrite(&mut self, write: impl FnOnce(&mut Fresh<'_>) -> io::Result<()>) -> io::Result<()> {
        self.expect(self.end / 2);
        self.retry_at = Instant::now() + RETRY;
        // Others in the directory may have the same name up to the last dot.
        let mut path = self.path.clone().into_os_string();
        path.push(".new");
        let path = PathBuf::from(path);
        let _ = std::fs::remove_file(&path);
        let mut file = open_locked(&path)?;
        file.write_all(&self.form.header)?;
        let end = self.form.header.len() as u64;
        let mut fresh = Fresh { form: self.form, file: &mut file, end, record: &mut self.record };
        write(&mut fresh)?;
        let end = fresh.end;
        file.sync_all()?;
        std::fs::rename(&path, &self.path)?;
        // The old one has no name any more: what would be written to it now, nobody would find again.
        self.file = file;
        self.end = end;
        self.filled = end;
        self.expect(end);
        let done = file::sync_directory_of(&self.path);
        self.broken = done.as_ref().err().map(ToString::to_string);
        done
    }
}

/// A journal that is about to take another's place.
pub struct Fresh<'a> {
    form: &'static Form,
    file: &'a mut File,
    end: u64,
    record: &'a mut Vec<u8>,
}

impl Fresh<'_> {
    /// Writes a record; all are synced at once in the end.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn append(&mut self, payload: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        record::encode(self.record, self.form, payload);
        let marked = self.end + self.record.len() as u64;
        self.record.extend_from_slice(&record::mark(marked));
        self.file.write_all(self.record)?;
        self.end = marked + MARK_LENGTH as u64;
        Ok(())
    }
}

/// Whether the file has to be said to be of the newest format.
fn check_header(bytes: &[u8], form: &Form) -> Result<bool, OpenError> {
    let (name, newest) = (&form.header[..15], form.header[15]);
    match bytes.strip_prefix(name) {
        Some([format, ..]) if *format == newest => Ok(false),
        Some([format, ..]) if form.older.contains(format) => Ok(true),
        Some([format, ..]) => Err(OpenError::UnknownFormat(*format)),
        _ => Err(OpenError::OtherFile),
    }
}

fn open_locked(path: &Path) -> io::Result<File> {
    loop {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(file::PRIVATE)
            .open(path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        // Between the two, its holder may have put another journal in the place of this one.
        if file::is_at(&file, path) {
            share(&file, path);
            return Ok(file);
        }
    }
}

/// Who may replace a file in its directory may write it: pods of one server have one group, but one that has the right to
/// raw sockets is another user.
fn share(file: &File, path: &Path) {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = std::fs::metadata(directory.unwrap_or(Path::new(".")));
    let (Ok(directory), Ok(own)) = (directory, file.metadata()) else { return };
    let is_groups = directory.mode() & 0o020 != 0 && directory.gid() == own.gid();
    let is_everybodys = directory.mode() & 0o002 != 0;
    let is_open = directory.mode() & STICKY == 0 && (is_groups || is_everybodys);
    if is_open && own.mode() & SHARED != SHARED {
        // Not if it is another's, who has done it, or it can't be opened anyway.
        let _ = file.set_permissions(Permissions::from_mode(SHARED));
    }
}
