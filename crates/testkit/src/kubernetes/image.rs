//! Container images as files, without a registry or a builder: one layer, readable by Docker, Podman and containerd.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use aws_lc_rs::digest::{SHA256, digest};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use super::site::run;

/// What holds a pod's namespaces.
pub(super) const PAUSE: &str = "causeway.test/pause:1";
/// A shell and the usual programs, for clients and servers of tests.
pub const BUSYBOX: &str = "causeway.test/busybox:1";
/// The cluster's DNS.
pub(super) const COREDNS: &str = "causeway.test/coredns:1";

/// An image to be written. The same content gives the same digests.
#[derive(Default)]
pub struct Image {
    pub name: String,
    pub entrypoint: Vec<String>,
    pub files: Vec<File>,
    /// Path in the image, and where it points to.
    pub links: Vec<(String, String)>,
    /// Who runs it, as `uid:gid`; root if empty.
    pub user: String,
    pub labels: BTreeMap<String, String>,
    /// When what is in it was made, as RFC 3339 has it.
    pub created: Option<String>,
    /// Small, which takes time, or written quickly.
    pub compressed: bool,
}

/// A file of an image.
pub struct File {
    pub path: String,
    pub mode: u32,
    pub content: Vec<u8>,
}

impl File {
    /// A file that everybody may run.
    pub fn program(path: impl Into<String>, content: Vec<u8>) -> Self {
        Self { path: path.into(), mode: 0o755, content }
    }
}

impl Image {
    /// Every applet of Debian's static busybox, under `name`.
    ///
    /// # Errors
    /// When it is not installed.
    pub(super) fn busybox(name: &str, entrypoint: &[&str]) -> anyhow::Result<Self> {
        let program = Path::new("/bin/busybox");
        let listed = run(Command::new(program).arg("--list"))?;
        let links = listed.lines().map(|applet| (format!("bin/{applet}"), "/bin/busybox".to_owned()));
        Ok(Self {
            name: name.to_owned(),
            entrypoint: entrypoint.iter().map(|&word| word.to_owned()).collect(),
            files: vec![File::program("bin/busybox", read(program)?)],
            links: links.filter(|(path, _)| path != "bin/busybox").collect(),
            ..Self::default()
        })
    }

    /// A program that needs nothing beside it.
    ///
    /// # Errors
    /// When it can't be read.
    pub(super) fn of_static(name: &str, program: &Path) -> anyhow::Result<Self> {
        let entrypoint = vec!["/program".to_owned()];
        let files = vec![File::program("program", read(program)?)];
        Ok(Self { name: name.to_owned(), entrypoint, files, ..Self::default() })
    }

    /// One program at this place with the libraries that it is linked with, without its symbols.
    ///
    /// # Errors
    /// When `strip` or `ldd` can't read it.
    pub fn of_program(name: &str, program: &Path, place: &str) -> anyhow::Result<Self> {
        let stripped = tempfile::NamedTempFile::new()?;
        run(Command::new("strip").arg("-o").arg(stripped.path()).arg(program))?;
        let mut files = vec![File::program(place, read(stripped.path())?)];
        let libraries = run(Command::new("ldd").arg(program))?;
        for path in libraries.split_whitespace().filter(|word| word.starts_with('/')) {
            files.push(File::program(path.trim_start_matches('/'), read(path.as_ref())?));
        }
        let entrypoint = format!("/{place}");
        Ok(Self { name: name.to_owned(), entrypoint: vec![entrypoint], files, ..Self::default() })
    }

    /// Writes it as an OCI archive that has Docker's own manifest too, which older versions of Docker need; gives back the
    /// digest of the OCI manifest.
    ///
    /// # Errors
    /// When the archive can't be written.
    pub fn write(&self, archive: &Path) -> anyhow::Result<String> {
        let layer = self.layer()?;
        let diff_id = digest_of(&layer);
        let (layer, layer_type) = if self.compressed {
            let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
            gzip.write_all(&layer)?;
            (gzip.finish()?, "application/vnd.oci.image.layer.v1.tar+gzip")
        } else {
            (layer, "application/vnd.oci.image.layer.v1.tar")
        };
        let config = self.config(&diff_id).to_string().into_bytes();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
            "layers": [descriptor(layer_type, &layer)],
            "annotations": self.labels,
        });
        let manifest = manifest.to_string().into_bytes();
        let mut entry = descriptor(MANIFEST, &manifest);
        entry["annotations"] = json!({
            "io.containerd.image.name": self.name,
            "org.opencontainers.image.ref.name": self.name,
        });
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]});
        let docker = json!([{"Config": blob(&config), "RepoTags": [self.name], "Layers": [blob(&layer)]}]);
        let file = fs::File::create(archive).with_context(|| format!("writing {}", archive.display()))?;
        let mut tar = tar::Builder::new(file);
        for (path, content) in [
            ("oci-layout".to_owned(), json!({"imageLayoutVersion": "1.0.0"}).to_string().as_bytes()),
            ("index.json".to_owned(), index.to_string().as_bytes()),
            ("manifest.json".to_owned(), docker.to_string().as_bytes()),
            (blob(&manifest), &manifest),
            (blob(&config), &config),
            (blob(&layer), &layer),
        ] {
            append(&mut tar, &path, 0o644, content)?;
        }
        tar.finish()?;
        Ok(digest_of(&manifest))
    }

    fn config(&self, diff_id: &str) -> serde_json::Value {
        let created = self.created.as_deref().unwrap_or("1970-01-01T00:00:00Z");
        json!({
            "created": created,
            "architecture": match std::env::consts::ARCH { "aarch64" => "arm64", _ => "amd64" },
            "os": "linux",
            "config": {
                "User": self.user,
                "Entrypoint": self.entrypoint,
                "Env": ["PATH=/bin:/usr/bin"],
                "WorkingDir": "/",
                "Labels": self.labels,
            },
            "rootfs": {"type": "layers", "diff_ids": [diff_id]},
            "history": [{"created": created, "created_by": "causeway"}],
        })
    }

    fn layer(&self) -> anyhow::Result<Vec<u8>> {
        let mut tar = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_mode(0o1777);
        header.set_size(0);
        tar.append_data(&mut header, "tmp", std::io::empty())?;
        for File { path, mode, content } in &self.files {
            append(&mut tar, path, *mode, content)?;
        }
        for (path, target) in &self.links {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_mode(0o777);
            header.set_size(0);
            tar.append_link(&mut header, path, target)?;
        }
        Ok(tar.into_inner()?)
    }
}

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

fn descriptor(media_type: &str, content: &[u8]) -> serde_json::Value {
    json!({"mediaType": media_type, "digest": digest_of(content), "size": content.len()})
}

/// Where a content lies in the archive.
fn blob(content: &[u8]) -> String {
    format!("blobs/sha256/{}", hex(content))
}

fn digest_of(content: &[u8]) -> String {
    format!("sha256:{}", hex(content))
}

fn append<W: std::io::Write>(
    tar: &mut tar::Builder<W>,
    path: &str,
    mode: u32,
    content: &[u8],
) -> anyhow::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_mode(mode);
    header.set_size(content.len() as u64);
    tar.append_data(&mut header, path, content)?;
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("reading {}", path.display()))
}

/// The digest of a content, as images name it.
pub(super) fn hex(content: &[u8]) -> String {
    digest(&SHA256, content).as_ref().iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}
