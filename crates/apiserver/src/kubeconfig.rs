//! The kubeconfig that lets its owner administer this server with kubectl and every other client.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use causeway_base::file;

use crate::access::SYSTEM_MASTERS;
use crate::pki::{self, Pki};

const ADMIN: &str = "causeway-admin";
/// Renewed at every start, since the file is written anew.
const ADMIN_LIFETIME: Duration = Duration::from_hours(365 * 24);

/// Why the kubeconfig could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("can't make the administrator's certificate")]
    MakeCertificate { source: pki::Error },
    #[error("can't write {}; check free space and that the directory is writable", path.display())]
    WriteFile { path: PathBuf, source: std::io::Error },
}

/// A kubeconfig for the administrator of the server at `server` (`https://127.0.0.1:6443`).
pub(crate) fn render(pki: &Pki, server: &str) -> Result<String, Error> {
    let admin = pki
        .client_certificate(ADMIN, &[SYSTEM_MASTERS], ADMIN_LIFETIME)
        .map_err(|source| Error::MakeCertificate { source })?;
    Ok(format!(
        "apiVersion: v1
kind: Config
clusters:
- name: causeway
  cluster:
    certificate-authority-data: {ca}
    server: {server}
contexts:
- name: causeway
  context:
    cluster: causeway
    user: causeway
current-context: causeway
preferences: {{}}
users:
- name: causeway
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
",
        ca = STANDARD.encode(pki.ca_pem()),
        certificate = STANDARD.encode(admin.certificate),
        key = STANDARD.encode(admin.key),
    ))
}

/// Writes the administrator's kubeconfig to `path` (mode 0600, replaced in one step) and returns its text.
pub(crate) fn write(path: &Path, pki: &Pki, server: &str) -> Result<String, Error> {
    let text = render(pki, server)?;
    file::replace(path, file::PRIVATE, text.as_bytes())
        .map_err(|source| Error::WriteFile { path: path.to_owned(), source })?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn replaces_an_existing_file_and_keeps_it_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kubeconfig");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let pki = Pki::ephemeral().unwrap();
        let text = write(&path, &pki, "https://127.0.0.1:6443").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn is_read_by_a_standard_client() {
        let pki = Pki::ephemeral().unwrap();
        let text = render(&pki, "https://127.0.0.1:6443").unwrap();
        let config: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(config["current-context"], "causeway");
        assert_eq!(config["clusters"][0]["cluster"]["server"], "https://127.0.0.1:6443");
        let ca = config["clusters"][0]["cluster"]["certificate-authority-data"].as_str().unwrap();
        assert_eq!(STANDARD.decode(ca).unwrap(), pki.ca_pem().as_bytes());
    }

    #[test]
    fn says_which_file_it_could_not_write() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("absent").join("kubeconfig");
        let message = write(&path, &Pki::ephemeral().unwrap(), "https://x").unwrap_err().to_string();
        assert!(message.contains("absent/kubeconfig"), "{message}");
    }
}
