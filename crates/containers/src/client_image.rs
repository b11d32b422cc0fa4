//! The image of `causeway tunnel client`: the running binary on top of nothing, or of a base image that a
//! person chose. It is named after its content, so that it is built once and never stale, and nothing is
//! pulled unless a base image is asked for that the runtime does not hold.

mod elf;
mod lock;
mod parts;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use crate::labels::CONTENT;
use crate::{Build, BuildFile, Content, Kind, Runtime};
use lock::Lock;
use parts::Parts;

/// Name of the image, without its tag.
pub const NAME: &str = "causeway-tunnel";

/// Where libraries lie in an image with a base: apart from the base's own, which may be of another version.
const PRIVATE: &str = "/opt/causeway/lib";

/// What the image is made of.
#[derive(Clone, Debug)]
pub struct Options {
    /// The binary; the running one by default.
    pub binary: PathBuf,
    /// Built on this image, in place of an empty one.
    pub base_image: Option<String>,
    /// Where the lock lies that makes processes build one after the other; a directory of this user by default.
    pub lock_dir: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            // Not /proc/self: the loader that lists the libraries is another process.
            binary: PathBuf::from(format!("/proc/{}/exe", std::process::id())),
            base_image: None,
            lock_dir: lock::own_directory(|name| std::env::var_os(name), rustix::process::geteuid().as_raw()),
        }
    }
}

/// The image could not be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read the binary {path}")]
    Binary { path: PathBuf, source: io::Error },
    #[error("{path} is no program for Linux that a container can run: {why}")]
    NotElf { path: PathBuf, why: &'static str },
    #[error(
        "this program is for {binary} but the container runtime is for {runtime}; \
         use a program built for {runtime}, or a runtime on this machine"
    )]
    Architecture { binary: String, runtime: String },
    #[error("cannot find the libraries of {path}: {why}")]
    Libraries { path: PathBuf, why: String },
    #[error(
        "base image {image} is not on this machine and cannot be pulled; \
         load it into the runtime, or leave baseImage out to need none"
    )]
    BaseImage { image: String, source: crate::Error },
    #[error("base image {image} is for {base} but the container runtime is for {runtime}")]
    BaseArchitecture { image: String, base: String, runtime: String },
    #[error("cannot lock {path}")]
    Lock { path: PathBuf, source: io::Error },
    #[error("the image {reference} could not be built")]
    Build { reference: String, source: crate::Error },
    #[error("the container runtime failed")]
    Runtime(#[source] crate::Error),
}

impl Error {
    /// True when trying again changes nothing until a person has changed something.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::NotElf { .. }
            | Self::Architecture { .. }
            | Self::Libraries { .. }
            | Self::BaseArchitecture { .. } => true,
            Self::Build { source, .. } => !source.is_transient(),
            Self::Binary { .. } | Self::BaseImage { .. } | Self::Lock { .. } | Self::Runtime(_) => false,
        }
    }

    /// The whole story on one line, for a condition or a log.
    pub fn report(&self) -> String {
        causeway_base::report::chain(self)
    }
}

/// Makes sure that the runtime holds the image, and gives its name.
///
/// Each line of what happens, the builder's output among it, goes to `output`. Of several processes
/// that ask at once, one builds and the others use what it built.
///
/// # Errors
/// When the image can't be built, or its base is neither there nor can be pulled.
pub async fn ensure(
    runtime: &Runtime,
    options: &Options,
    mut output: impl FnMut(&str),
) -> Result<String, Error> {
    let info = runtime.info().await.map_err(Error::Runtime)?;
    let parts = Parts::of(&options.binary).await?;
    if parts.architecture != info.architecture {
        return Err(Error::Architecture { binary: parts.architecture.clone(), runtime: info.architecture });
    }
    let base = match &options.base_image {
        Some(image) => Some(base_image(runtime, image, &info.architecture, &mut output).await?),
        None => None,
    };
    let digest = parts.digest(base.as_deref());
    let reference = match runtime.kind() {
        Kind::Docker => format!("{NAME}:{}", &digest[..12]),
        Kind::Podman => format!("localhost/{NAME}:{}", &digest[..12]),
    };
    if is_there(runtime, &reference, &digest).await? {
        return Ok(reference);
    }
    let lock = Lock::take(&options.lock_dir, &mut output).await?;
    // Another process may have built it while this one waited.
    if !is_there(runtime, &reference, &digest).await? {
        output(&format!("building {reference} from {}", options.binary.display()));
        let build = recipe(&reference, &digest, &parts, options.base_image.as_deref());
        runtime
            .build(build, &mut output)
            .await
            .map_err(|source| Error::Build { reference: reference.clone(), source })?;
    }
    drop(lock);
    Ok(reference)
}

async fn is_there(runtime: &Runtime, reference: &str, digest: &str) -> Result<bool, Error> {
    let image = runtime.image(reference).await.map_err(Error::Runtime)?;
    Ok(image.is_some_and(|image| image.labels.get(CONTENT).is_some_and(|content| content == digest)))
}

/// The id of the base image; pulled only when the runtime does not hold it.
async fn base_image(
    runtime: &Runtime,
    image: &str,
    architecture: &str,
    output: &mut impl FnMut(&str),
) -> Result<String, Error> {
    let found = if let Some(found) = runtime.image(image).await.map_err(Error::Runtime)? {
        found
    } else {
        output(&format!("pulling base image {image}"));
        runtime
            .pull(image, &mut *output)
            .await
            .map_err(|source| Error::BaseImage { image: image.to_owned(), source })?
    };
    // Images made by hand may leave it out.
    if !found.architecture.is_empty() && found.architecture != architecture {
        return Err(Error::BaseArchitecture {
            image: image.to_owned(),
            base: found.architecture,
            runtime: architecture.to_owned(),
        });
    }
    Ok(found.id)
}

/// How the image is built.
fn recipe<'a>(reference: &'a str, digest: &str, parts: &Parts, base_image: Option<&str>) -> Build<'a> {
    let mut files = vec![BuildFile {
        path: "root/causeway".to_owned(),
        content: Content::File(parts.binary.clone()),
        mode: 0o755,
    }];
    let mut entrypoint = vec!["/causeway".to_owned()];
    let mut private = |name: &str, source: &PathBuf| {
        let place = format!("{PRIVATE}/{name}");
        files.push(BuildFile {
            path: format!("root{place}"),
            content: Content::File(source.clone()),
            mode: 0o755,
        });
        place
    };
    if let Some(dynamic) = &parts.dynamic {
        if base_image.is_some() {
            for (name, source) in &dynamic.libraries {
                private(name, source);
            }
            let loader = private("ld.so", &dynamic.loader);
            entrypoint.splice(0..0, [loader, "--library-path".to_owned(), PRIVATE.to_owned()]);
        } else {
            let places = dynamic.libraries.values().chain([&dynamic.loader]);
            files.extend(places.map(|place| BuildFile {
                path: format!("root{}", place.display()),
                content: Content::File(place.clone()),
                mode: 0o755,
            }));
        }
    }
    let entrypoint: Vec<String> = entrypoint.iter().map(|word| format!("{word:?}")).collect();
    let search = match &parts.dynamic {
        // Without its cache the loader knows only its built-in directories.
        Some(dynamic) if base_image.is_none() => format!("ENV LD_LIBRARY_PATH={}\n", dynamic.directories()),
        _ => String::new(),
    };
    let dockerfile = format!(
        "FROM {}\n{search}COPY root/ /\nENTRYPOINT [{}]\n",
        base_image.unwrap_or("scratch"),
        entrypoint.join(", ")
    );
    let labels = BTreeMap::from([(CONTENT.to_owned(), digest.to_owned())]);
    Build { reference, dockerfile, files, labels }
}

#[cfg(test)]
mod tests;
