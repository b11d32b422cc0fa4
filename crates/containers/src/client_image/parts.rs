//! The files that go into the image: the binary and, if it is not static, its loader and libraries.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use aws_lc_rs::digest;
use causeway_base::lock::lock;

use super::{Error, elf};

/// How long the loader may take to list libraries.
const LIST: Duration = Duration::from_secs(10);

/// All that the image is made of, but the base.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    pub binary: PathBuf,
    pub architecture: String,
    pub dynamic: Option<Dynamic>,
    /// Over the content of all files.
    content: [u8; 32],
}

/// What a dynamically linked program needs.
#[derive(Clone, Debug)]
pub(super) struct Dynamic {
    pub loader: PathBuf,
    /// Where each library lies, by the name it is asked for.
    pub libraries: BTreeMap<String, PathBuf>,
}

impl Dynamic {
    /// The directories of the libraries, as the loader takes them.
    pub(super) fn directories(&self) -> String {
        let directories: BTreeSet<_> = self.libraries.values().filter_map(|path| path.parent()).collect();
        directories.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(":")
    }
}

/// A state of a file: device, inode, size and time of last change.
type Version = (u64, u64, u64, i64, i64);

/// Hashing a large binary takes a while, and it hardly ever changes while a process runs.
static KNOWN: Mutex<Option<HashMap<Version, Parts>>> = Mutex::new(None);

impl Parts {
    /// Looks at the binary, lists what it needs and hashes it all.
    pub(super) async fn of(binary: &Path) -> Result<Self, Error> {
        let version = version(binary)?;
        let known = lock(&KNOWN).as_ref().and_then(|known| known.get(&version).cloned());
        if let Some(parts) = known {
            return Ok(Self { binary: binary.to_owned(), ..parts });
        }
        let header = header(binary)?;
        let dynamic = match header.interpreter {
            Some(loader) => Some(libraries(binary, PathBuf::from(loader)).await?),
            None => None,
        };
        let hashed = (binary.to_owned(), dynamic.clone());
        let content = tokio::task::spawn_blocking(move || hash(&hashed.0, hashed.1.as_ref()))
            .await
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
        let parts = Self {
            binary: binary.to_owned(),
            architecture: header.architecture.to_owned(),
            dynamic,
            content,
        };
        lock(&KNOWN).get_or_insert_default().insert(version, parts.clone());
        Ok(parts)
    }

    #[cfg(test)]
    pub(super) fn for_test(binary: &str, dynamic: Option<Dynamic>) -> Self {
        Self { binary: binary.into(), architecture: "x86_64".into(), dynamic, content: [0; 32] }
    }

    /// The digest of all of it on top of this base, in hexadecimal.
    pub(super) fn digest(&self, base_id: Option<&str>) -> String {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(&self.content);
        context.update(base_id.unwrap_or_default().as_bytes());
        context.finish().as_ref().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
    }
}

fn version(binary: &Path) -> Result<Version, Error> {
    let metadata =
        fs::metadata(binary).map_err(|source| Error::Binary { path: binary.to_owned(), source })?;
    Ok((metadata.dev(), metadata.ino(), metadata.size(), metadata.mtime(), metadata.mtime_nsec()))
}

fn header(binary: &Path) -> Result<elf::Header, Error> {
    let file = fs::File::open(binary).map_err(|source| Error::Binary { path: binary.to_owned(), source })?;
    let read = |offset, length| {
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, offset).ok().map(|()| bytes)
    };
    elf::parse(read).map_err(|why| Error::NotElf { path: binary.to_owned(), why })
}

fn hash(binary: &Path, dynamic: Option<&Dynamic>) -> Result<[u8; 32], Error> {
    let mut context = digest::Context::new(&digest::SHA256);
    let libraries = dynamic.map(|dynamic| dynamic.libraries.iter()).into_iter().flatten();
    let loader = dynamic.map(|dynamic| ("ld.so", dynamic.loader.as_path()));
    let files = [("causeway", binary)]
        .into_iter()
        .chain(loader)
        .chain(libraries.map(|(name, path)| (name.as_str(), path.as_path())));
    for (name, path) in files {
        let failed = |source: io::Error| Error::Binary { path: path.to_owned(), source };
        let mut file = fs::File::open(path).map_err(failed)?;
        // Where a file lies and how long it is belongs to the content.
        context.update(
            format!("{name}\0{}\0{}\0", place(path, name), file.metadata().map_err(failed)?.len()).as_bytes(),
        );
        let mut piece = vec![0; 1 << 20];
        loop {
            match file.read(&mut piece).map_err(failed)? {
                0 => break,
                length => context.update(&piece[..length]),
            }
        }
    }
    let mut content = [0; 32];
    content.copy_from_slice(context.finish().as_ref());
    Ok(content)
}

/// The binary always lies at /causeway, wherever it comes from.
fn place(path: &Path, name: &str) -> String {
    if name == "causeway" { "/causeway".to_owned() } else { path.display().to_string() }
}

async fn libraries(binary: &Path, loader: PathBuf) -> Result<Dynamic, Error> {
    let failed = |why: String| Error::Libraries { path: binary.to_owned(), why };
    let run = tokio::process::Command::new(&loader).arg("--list").arg(binary).kill_on_drop(true).output();
    let output = tokio::time::timeout(LIST, run)
        .await
        .map_err(|_| failed(format!("{} gave no list within {} s", loader.display(), LIST.as_secs())))?
        .map_err(|error| failed(format!("{} --list: {error}", loader.display())))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    let libraries = parse_list(&String::from_utf8_lossy(&output.stdout), &loader).map_err(failed)?;
    Ok(Dynamic { loader, libraries })
}

/// Reads lines as `libc.so.6 => /lib/libc.so.6 (0x00007f...)`.
fn parse_list(text: &str, loader: &Path) -> Result<BTreeMap<String, PathBuf>, String> {
    let mut libraries = BTreeMap::new();
    for line in text.lines() {
        let Some((name, place)) = line.trim().split_once(" => ") else { continue };
        let place = place.rsplit_once(" (").map_or(place, |(place, _)| place).trim();
        if place == "not found" {
            return Err(format!("{name} is not found"));
        }
        let place = Path::new(place);
        if place.is_absolute() && place != loader && Path::new(name) != loader {
            let name = Path::new(name).file_name().map_or(name.into(), |name| name.to_string_lossy());
            libraries.insert(name.into_owned(), place.to_owned());
        }
    }
    Ok(libraries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_list_of_both_c_libraries() {
        let glibc = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibgcc_s.so.1 => /lib/x86_64-linux-gnu/libgcc_s.so.1 (0x00007f3b)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f3a)\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f3c)\n";
        let found = parse_list(glibc, Path::new("/lib64/ld-linux-x86-64.so.2")).unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["libc.so.6", "libgcc_s.so.1"]);
        let musl =
            "\t/lib/ld-musl-x86_64.so.1 (0x7f)\n\tlibc.musl-x86_64.so.1 => /lib/ld-musl-x86_64.so.1 (0x7f)\n";
        assert!(parse_list(musl, Path::new("/lib/ld-musl-x86_64.so.1")).unwrap().is_empty());
    }

    #[test]
    fn names_the_library_that_is_missing() {
        let said = parse_list("\tlibz.so.1 => not found\n", Path::new("/lib/ld.so")).unwrap_err();
        assert_eq!(said, "libz.so.1 is not found");
    }

    #[tokio::test]
    async fn the_digest_tells_bases_apart_and_stays() {
        let exe = Path::new("/proc/self/exe");
        let parts = Parts::of(exe).await.unwrap();
        assert_eq!(parts.digest(None), Parts::of(exe).await.unwrap().digest(None));
        assert_ne!(parts.digest(None), parts.digest(Some("sha256:1")));
        assert_eq!(parts.digest(None).len(), 64);
    }
}
