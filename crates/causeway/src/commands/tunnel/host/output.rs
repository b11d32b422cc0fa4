//! What this process prints goes to a file that the operator opened; it is kept from filling the disk.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use causeway_base::file;
use causeway_ir::tunnel::files;

/// The file is emptied when it has grown to this; what was in it is kept beside it until the next time.
const MOST: u64 = 1 << 20;

/// The files of the output. They are held open: a process that is out of descriptors has most to say.
pub(super) struct Output(Option<(File, File)>);

impl Output {
    /// That of the directory; a process that a person started prints elsewhere, and has none.
    pub(super) fn open(directory: &Path) -> Self {
        let Ok(output) = OpenOptions::new().read(true).write(true).open(directory.join(files::OUTPUT)) else {
            return Self(None);
        };
        let old = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(file::PRIVATE)
            .open(directory.join(files::OLD_OUTPUT));
        if let Err(error) = &old {
            tracing::warn!(%error, "can't open the file for older output, so it is not kept within bounds");
        }
        Self(old.ok().map(|old| (output, old)))
    }

    /// Keeps the output within its bounds.
    pub(super) fn bound(&mut self) {
        let Some((output, old)) = &mut self.0 else { return };
        if output.metadata().is_ok_and(|file| file.len() > MOST)
            && let Err(error) = empty(output, old)
        {
            tracing::warn!(%error, "can't empty the output");
        }
    }
}

/// Moves what is in a file to another. Everybody appends, so that what comes next is at the beginning again.
fn empty(output: &mut File, old: &mut File) -> io::Result<()> {
    output.rewind()?;
    old.rewind()?;
    old.set_len(0)?;
    // A disk that is full keeps no older output; that must not keep the newer from being bounded.
    let copied = io::copy(output, old);
    output.set_len(0)?;
    copied.map(drop)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use super::*;

    #[test]
    fn output_stays_within_its_bounds() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(files::OUTPUT);
        Output::open(dir.path()).bound();
        let mut output = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        let mut bounded = Output::open(dir.path());
        output.write_all(&vec![b'x'; MOST as usize]).unwrap();
        bounded.bound();
        assert_eq!(fs::metadata(&path).unwrap().len(), MOST, "not yet");
        for last in ["more\n", "and more\n"] {
            output.write_all(last.as_bytes()).unwrap();
            bounded.bound();
            output.write_all(b"after\n").unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "after\n");
            assert!(fs::read_to_string(dir.path().join(files::OLD_OUTPUT)).unwrap().ends_with(last));
            output.write_all(&vec![b'x'; MOST as usize]).unwrap();
        }
    }
}
