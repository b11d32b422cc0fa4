//! The usual issuers and DNS providers, made from what zones say and from their credentials.

mod cloud;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use causeway_api::{DnsProviderKind, IssuerKind, names};
use causeway_base::lock::lock;
use causeway_providers::{
    Error, Name, Secret as Text, acme, certificate::CertificateIssuer, dns::DnsProvider, local, rfc2136,
};
use causeway_translate::hostname::{Zone, listeners::COMPONENT};
use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Namespace, Secret},
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::{sync::Mutex, time::Instant};

use super::{
    FIELD_MANAGER,
    local::ConfigMapShelf,
    settings::{Settings, Suppliers},
};

/// How long what was made of credentials is used before they are read again.
const FRESH: Duration = Duration::from_mins(5);
/// The Secret with our own authority, and the ConfigMap with what clients are told to trust.
pub(super) const AUTHORITY: &str = "causeway-local-ca";
/// The entry of a Secret with an account at an ACME directory.
const ACCOUNT: &str = "account";
const AUTHORITY_PEM: &str = "ca.pem";
const AUTHORITY_CERTIFICATE: &str = "ca.crt";

/// How long a failure stands for those who ask in the same moment.
const FAILED: Duration = Duration::from_secs(5);

/// What was made of settings and credentials, by those. Whoever waits for one that is slow to be made holds up nobody else.
struct Made<T: ?Sized>(std::sync::Mutex<BTreeMap<String, Arc<Slot<T>>>>);

/// One of them, or why there is none, and since when.
type Slot<T> = Mutex<Option<(Instant, Result<Arc<T>, Error>)>>;

impl<T: ?Sized> Default for Made<T> {
    fn default() -> Self {
        Self(std::sync::Mutex::default())
    }
}

impl<T: ?Sized> Made<T> {
    async fn get(
        &self,
        key: String,
        make: impl Future<Output = Result<Arc<T>, Error>>,
    ) -> Result<Arc<T>, Error> {
        let slot = {
            let mut slots = lock(&self.0);
            // Those of zones that were changed or are gone.
            slots.retain(|_, slot| {
                let made = slot.try_lock().ok().and_then(|made| made.as_ref().map(|(at, _)| *at));
                made.is_none_or(|at| at.elapsed() < FRESH * 2)
            });
            Arc::clone(slots.entry(key).or_default())
        };
        let mut made = slot.lock().await;
        if let Some((at, result)) = &*made
            && at.elapsed() < if result.is_ok() { FRESH } else { FAILED }
        {
            return result.clone();
        }
        let result = make.await;
        *made = Some((Instant::now(), result.clone()));
        result
    }

    fn forget(&self, key: &str) {
        lock(&self.0).remove(key);
    }
}

/// Makes issuers and providers, and keeps them for a while.
pub(crate) struct Providers {
    client: Client,
    settings: Settings,
    image: String,
    instance: Mutex<Option<String>>,
    dns: Made<dyn DnsProvider>,
    issuers: Made<dyn CertificateIssuer>,
}

impl Providers {
    pub(crate) fn new(client: Client, settings: &Settings, image: &str) -> Self {
        Self {
            client,
            settings: settings.clone(),
            image: image.to_owned(),
            instance: Mutex::default(),
            dns: Made::default(),
            issuers: Made::default(),
        }
    }

    /// What tells this cluster from others that may write to the same zones.
    async fn instance(&self) -> Result<String, Error> {
        let mut known = self.instance.lock().await;
        if let Some(known) = &*known {
            return Ok(known.clone());
        }
        let namespace =
            Api::<Namespace>::all(self.client.clone()).get("kube-system").await.map_err(unavailable)?;
        Ok(known.insert(namespace.uid().unwrap_or_default()).clone())
    }

    /// The texts of a Secret of the operator's namespace.
    async fn credentials(&self, name: Option<&str>) -> Result<BTreeMap<String, String>, Error> {
        let Some(name) = name else { return Ok(BTreeMap::new()) };
        let api = Api::<Secret>::namespaced(self.client.clone(), &self.settings.namespace);
        let missing = || Error::Invalid {
            what: format!("there is no Secret {name} in namespace {}", self.settings.namespace),
            remedy: "create it, or correct the HostnameZone's credentialsSecret".to_owned(),
        };
        let secret = api.get_opt(name).await.map_err(unavailable)?.ok_or_else(missing)?;
        let texts = secret.data.unwrap_or_default().into_iter();
        Ok(texts.filter_map(|(key, ByteString(bytes))| Some((key, String::from_utf8(bytes).ok()?))).collect())
    }

    async fn make_dns(&self, zone: &Zone) -> Result<Arc<dyn DnsProvider>, Error> {
        let instance = self.instance().await?;
        let dns = &zone.dns;
        let credentials = self.credentials(dns.credentials_secret.as_deref()).await?;
        match dns.provider {
            DnsProviderKind::Local => {
                let shelf = ConfigMapShelf::new(
                    self.client.clone(),
                    &self.settings.world.edge_namespace,
                    &self.image,
                    self.settings.dns_port,
                );
                Ok(Arc::new(local::Dns::new(instance, shelf)))
            }
            DnsProviderKind::Rfc2136 => {
                let named = dns.credentials_secret.as_deref().unwrap_or_default();
                let entry = |key: &str| {
                    credentials.get(key).map(|text| text.trim().to_owned()).ok_or_else(|| Error::Invalid {
                        what: format!("Secret {named} has no entry {key}"),
                        remedy: "write the name, the algorithm and the secret of a TSIG key into it"
                            .to_owned(),
                    })
                };
                let algorithm = credentials.get("algorithm").map_or("hmac-sha256", |text| text.trim());
                let key = rfc2136::Key {
                    name: Name::parse(&entry("keyName")?)?,
                    algorithm: algorithm.parse()?,
                    secret: Text::new(entry("secret")?),
                };
                let server = dns.server.clone().unwrap_or_default();
                let answered_by = dns.answered_by.clone();
                let settings = rfc2136::Settings { instance, server, key: Some(key), answered_by };
                Ok(Arc::new(rfc2136::Dns::new(settings)?))
            }
            DnsProviderKind::Aws => {
                let (region, endpoint) = (dns.region.as_ref(), dns.endpoint.as_ref());
                cloud::dns(self.cloud(instance, region, endpoint, credentials)).await
            }
        }
    }

    async fn make_issuer(&self, zone: &Zone) -> Result<Arc<dyn CertificateIssuer>, Error> {
        let certificates = &zone.certificates;
        let credentials = self.credentials(certificates.credentials_secret.as_deref()).await?;
        match certificates.issuer {
            IssuerKind::Local => {
                Ok(Arc::new(local::Issuer::new(self.authority().await?, self.settings.local_lifetime)))
            }
            IssuerKind::Acme => {
                let external = credentials.get("eabKeyId").zip(credentials.get("eabKey"));
                let settings = acme::Settings {
                    directory: certificates.directory.clone().unwrap_or_default(),
                    contacts: certificates.email.iter().map(|email| format!("mailto:{email}")).collect(),
                    external_account: external.map(|(id, key)| acme::ExternalAccount {
                        id: id.trim().to_owned(),
                        key: Text::new(key.trim().to_owned()),
                    }),
                    authorities: credentials.get("ca.crt").cloned(),
                    profile: None,
                };
                let account = self.acme_account(&settings).await?;
                Ok(Arc::new(acme::Issuer::open(settings, &account).await?))
            }
            IssuerKind::Aws => {
                let instance = self.instance().await?;
                let (region, endpoint) = (certificates.region.as_ref(), certificates.endpoint.as_ref());
                cloud::issuer(self.cloud(instance, region, endpoint, credentials)).await
            }
        }
    }

    fn cloud(
        &self,
        instance: String,
        region: Option<&String>,
        endpoint: Option<&String>,
        credentials: BTreeMap<String, String>,
    ) -> cloud::Place {
        let region = region.or(self.settings.world.dns.region.as_ref()).cloned();
        cloud::Place { instance, region, endpoint: endpoint.cloned(), credentials }
    }

    /// The account at an ACME directory, made if there is none: one for each directory, and kept before it is used.
    async fn acme_account(&self, settings: &acme::Settings) -> Result<Text, Error> {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, settings.directory.as_bytes());
        let number =
            digest.as_ref().iter().take(6).fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
        let name = format!("causeway-acme-{number:012x}");
        let secrets = Api::<Secret>::namespaced(self.client.clone(), &self.settings.namespace);
        let text = |secret: &Secret| {
            let ByteString(bytes) = secret.data.as_ref()?.get(ACCOUNT)?;
            String::from_utf8(bytes.clone()).ok().map(Text::new)
        };
        if let Some(found) = secrets.get_opt(&name).await.map_err(unavailable)?
            && let Some(account) = text(&found)
        {
            return Ok(account);
        }
        let account = acme::new_account(settings).await?;
        let secret: Secret = serde_json::from_value(json!({
            "metadata": {
                "name": name, "labels": labels(),
                "annotations": {"causeway.dev/acme-directory": settings.directory},
            },
            "type": "Opaque",
            "stringData": {ACCOUNT: account.expose()},
        }))
        .map_err(unavailable)?;
        match secrets.create(&params(), &secret).await {
            Ok(_) => Ok(account),
            // Somebody was quicker: theirs is used.
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let found = secrets.get(&name).await.map_err(unavailable)?;
                text(&found).ok_or_else(|| Error::Invalid {
                    what: format!("Secret {name} has no entry {ACCOUNT}"),
                    remedy: "delete it, and an account is made anew".to_owned(),
                })
            }
            Err(error) => Err(unavailable(error)),
        }
    }

    /// Our own authority, made if there is none. What clients are told to trust is where everybody may read it.
    async fn authority(&self) -> Result<local::Authority, Error> {
        let secrets = Api::<Secret>::namespaced(self.client.clone(), &self.settings.namespace);
        let found = match secrets.get_opt(AUTHORITY).await.map_err(unavailable)? {
            Some(found) => found,
            None => make_authority(&secrets).await?,
        };
        let pem = found.data.as_ref().and_then(|data| data.get(AUTHORITY_PEM));
        let pem = pem.and_then(|ByteString(bytes)| String::from_utf8(bytes.clone()).ok()).unwrap_or_default();
        let authority = local::Authority::from_pem(&Text::new(pem))?;
        let maps = Api::<ConfigMap>::namespaced(self.client.clone(), &self.settings.world.edge_namespace);
        let told = maps.get_opt(AUTHORITY).await.map_err(unavailable)?;
        let certificate = authority.certificate();
        let is_told = |map: &ConfigMap| {
            let there = map.data.as_ref().and_then(|data| data.get(AUTHORITY_CERTIFICATE));
            there.is_some_and(|there| *there == certificate)
        };
        if let Some(map) = told {
            // Of an authority that was there before, or somebody edited it.
            if !is_told(&map) {
                let patch = Patch::Merge(json!({"data": {AUTHORITY_CERTIFICATE: certificate}}));
                let params =
                    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
                maps.patch(AUTHORITY, &params, &patch).await.map_err(unavailable)?;
            }
        } else {
            let map: ConfigMap = serde_json::from_value(json!({
                "metadata": {"name": AUTHORITY, "labels": labels()},
                "data": {AUTHORITY_CERTIFICATE: certificate},
            }))
            .map_err(unavailable)?;
            match maps.create(&params(), &map).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(unavailable(error)),
            }
        }
        Ok(authority)
    }
}

async fn make_authority(secrets: &Api<Secret>) -> Result<Secret, Error> {
    let made = local::Authority::generate(&[])?;
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": AUTHORITY, "labels": labels()},
        "type": "Opaque",
        "stringData": {
            AUTHORITY_PEM: made.to_pem().expose(), AUTHORITY_CERTIFICATE: made.certificate(),
        },
    }))
    .map_err(unavailable)?;
    match secrets.create(&params(), &secret).await {
        Ok(made) => Ok(made),
        // Somebody was quicker.
        Err(kube::Error::Api(status)) if status.code == 409 => {
            secrets.get(AUTHORITY).await.map_err(unavailable)
        }
        Err(error) => Err(unavailable(error)),
    }
}

impl Suppliers for Providers {
    fn dns<'a>(&'a self, zone: &'a Zone) -> BoxFuture<'a, Result<Arc<dyn DnsProvider>, Error>> {
        self.dns.get(dns_key(zone), self.make_dns(zone)).boxed()
    }

    fn issuer<'a>(&'a self, zone: &'a Zone) -> BoxFuture<'a, Result<Arc<dyn CertificateIssuer>, Error>> {
        self.issuers.get(issuer_key(zone), self.make_issuer(zone)).boxed()
    }

    fn forget(&self, zone: &Zone) {
        self.dns.forget(&dns_key(zone));
        self.issuers.forget(&issuer_key(zone));
    }
}

fn dns_key(zone: &Zone) -> String {
    format!("{:?}", zone.dns)
}

fn issuer_key(zone: &Zone) -> String {
    format!("{:?}", zone.certificates)
}

fn labels() -> serde_json::Value {
    json!({names::LABEL_MANAGED_BY: names::MANAGED_BY, names::LABEL_COMPONENT: COMPONENT})
}

fn params() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

fn unavailable(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Unavailable { at: "the API server".to_owned(), source: Arc::new(error) }
}
