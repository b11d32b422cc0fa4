//! What this process prints goes to a file that the operator opened; it is kept from filling the disk.

use std::fs::{self, OpenOptions};
use std::path::Path;

use causeway_controllers::containers::tunnel::host::files;

/// The file is emptied when it has grown to this; what was in it is kept beside it until the next time.
const MOST: u64 = 1 << 20;

/// Keeps the output within its bounds.
pub(super) fn bound(directory: &Path) {
    let path = directory.join(files::OUTPUT);
    if fs::metadata(&path).is_ok_and(|file| file.len() > MOST) {
        // Everybody appends, so that what comes next is at the beginning again.
        let emptied = fs::copy(&path, directory.join(files::OLD_OUTPUT))
            .and_then(|_| OpenOptions::new().write(true).truncate(true).open(&path));
        if let Err(error) = emptied {
            tracing::warn!(path = %path.display(), %error, "can't empty the output");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn output_stays_within_its_bounds() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(files::OUTPUT);
        let mut output = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        output.write_all(&vec![b'x'; MOST as usize]).unwrap();
        bound(dir.path());
        assert_eq!(fs::metadata(&path).unwrap().len(), MOST, "not yet");
        output.write_all(b"more\n").unwrap();
        bound(dir.path());
        output.write_all(b"after\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "after\n");
        assert!(fs::read_to_string(dir.path().join(files::OLD_OUTPUT)).unwrap().ends_with("more\n"));
    }
}
