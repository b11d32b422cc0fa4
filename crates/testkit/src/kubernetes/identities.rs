//! Who is who in a cluster: one authority, a certificate for each part, and the kubeconfigs made of them.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

use super::network::{API_SERVICE, CONTROL_PLANE};

/// Writes the authority's and the parts' files into one directory.
pub(super) struct Identities {
    dir: PathBuf,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Identities {
    /// Makes a new authority, the API server's certificate and the key of service accounts.
    ///
    /// # Errors
    /// When a file can't be written.
    pub(super) fn create(dir: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(dir)?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "cluster");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let identities = Self { dir: dir.to_owned(), authority };
        fs::write(identities.path("ca.crt"), identities.authority.pem())?;
        let accounts = KeyPair::generate()?;
        fs::write(identities.path("accounts.key"), accounts.serialize_pem())?;
        fs::write(identities.path("accounts.pub"), accounts.public_key_pem())?;
        let names =
            ["kubernetes.default.svc", "kubernetes.default", "kubernetes", "localhost"].map(str::to_owned);
        let addresses = ["127.0.0.1".to_owned(), API_SERVICE.to_string(), CONTROL_PLANE.to_string()];
        let mut params = CertificateParams::new(names.into_iter().chain(addresses).collect::<Vec<_>>())?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        identities.issue("apiserver", params)?;
        Ok(identities)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// A client's certificate, as `FILE.crt` and `FILE.key`, and a kubeconfig with it, whose path is the answer.
    ///
    /// # Errors
    /// When a file can't be written.
    pub(super) fn client(&self, file: &str, user: &str, group: &str) -> anyhow::Result<PathBuf> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(file, params)?;
        let kubeconfig = self.path(&format!("{file}.kubeconfig"));
        let dir = self.dir.display();
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: cluster\n\
             clusters: [{{name: cluster, cluster: {{server: \"https://{CONTROL_PLANE}:6443\", certificate-authority: {dir}/ca.crt}}}}]\n\
             users: [{{name: user, user: {{client-certificate: {dir}/{file}.crt, client-key: {dir}/{file}.key}}}}]\n\
             contexts: [{{name: cluster, context: {{cluster: cluster, user: user}}}}]\n"
        );
        fs::write(&kubeconfig, text)?;
        Ok(kubeconfig)
    }

    fn issue(&self, file: &str, params: CertificateParams) -> anyhow::Result<()> {
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.authority)?;
        fs::write(self.path(&format!("{file}.crt")), certificate.pem())?;
        fs::write(self.path(&format!("{file}.key")), key.serialize_pem())?;
        Ok(())
    }
}
