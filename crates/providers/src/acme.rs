//! ACME (RFC 8555): orders proven by DNS-01 or HTTP-01, renewed when the authority says so (ARI, RFC 9773).

mod transport;

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use instant_acme::{
    Account, AccountCredentials, AuthorizationHandle, AuthorizationStatus, CertificateIdentifier,
    ChallengeStatus, ChallengeType, ExternalAccountKey, Identifier, Key, NewAccount, NewOrder, OrderStatus,
    Problem, RevocationReason, RevocationRequest,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, Der, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::certificate::{
    Certificate, CertificateIssuer, Look, Order, PrivateKey, Proof, ProofData, ProofKind, Renewal,
};
use crate::{Error, Name, Secret, x509};

use transport::Transport;

/// Whom to ask, and as whom.
#[derive(Clone)]
pub struct Settings {
    /// The authority's directory, such as `https://acme-v02.api.letsencrypt.org/directory`.
    pub directory: String,
    /// Where the authority may write to, as `mailto:` addresses.
    pub contacts: Vec<String>,
    /// The account at the authority that ours is bound to, where it wants that.
    pub external_account: Option<ExternalAccount>,
    /// Certificates to trust besides the system's, as PEM, for an authority of one's own.
    pub authorities: Option<String>,
    /// The kind of certificate, of those that the directory offers.
    pub profile: Option<String>,
}

/// An account that was made at the authority's own site.
#[derive(Clone)]
pub struct ExternalAccount {
    /// Its name there.
    pub id: String,
    /// Its key in base64, with the alphabet for URLs.
    pub key: Secret,
}

/// Between two looks while the authority works.
const SOON: Duration = Duration::from_secs(2);

/// Makes what [`Issuer::open`] wants: store it before it is used. Without an external account that is a new key and nobody
/// is asked; with one the account is registered, since its binding may be used once only.
///
/// # Errors
/// Why there can't be an account.
pub async fn new_account(settings: &Settings) -> Result<Secret, Error> {
    let Some(external) = &settings.external_account else {
        return PrivateKey::generate().map(|key| Secret::new(key.to_pem().to_owned()));
    };
    let at = &settings.directory;
    let key =
        BASE64_URL_SAFE_NO_PAD.decode(external.key.expose().trim().trim_end_matches('=')).map_err(|_| {
            Error::invalid(
                "the key of the external account can't be read",
                "write it in base64, as the authority gave it",
            )
        })?;
    let contacts: Vec<&str> = settings.contacts.iter().map(String::as_str).collect();
    let account =
        NewAccount { contact: &contacts, terms_of_service_agreed: true, only_return_existing: false };
    let external = ExternalAccountKey::new(external.id.clone(), &key);
    let builder = Account::builder_with_http(Box::new(Transport::new(settings)?));
    let created = builder.create(&account, at.clone(), Some(&external)).await;
    let (_, credentials) = created.map_err(|error| transport::error(at, error))?;
    let text = serde_json::to_string(&credentials).map_err(|error| Error::unavailable(at, error))?;
    Ok(Secret::new(text))
}

/// An account at an authority.
pub struct Issuer {
    name: String,
    settings: Settings,
    account: Account,
}

impl Issuer {
    /// Opens the account of what [`new_account`] gave, and registers it if that has not been done yet.
    ///
    /// # Errors
    /// Why it can't be opened.
    pub async fn open(settings: Settings, stored: &Secret) -> Result<Self, Error> {
        let at = settings.directory.clone();
        let failed = |error| transport::error(&at, error);
        let broken = || {
            Error::invalid(
                "the stored ACME account can't be read",
                "restore its Secret, or remove it for a new account, which starts with new limits",
            )
        };
        let builder = Account::builder_with_http(Box::new(Transport::new(&settings)?));
        let account = if stored.expose().starts_with('{') {
            let credentials: AccountCredentials =
                serde_json::from_str(stored.expose()).map_err(|_| broken())?;
            builder.from_credentials(credentials).await.map_err(failed)?
        } else {
            let der = PrivatePkcs8KeyDer::from_pem_slice(stored.expose().as_bytes()).map_err(|_| broken())?;
            let key = Key::from_pkcs8_der(der.clone_key()).map_err(|_| broken())?;
            let opened = builder.create_from_key((key, PrivateKeyDer::Pkcs8(der)), at.clone()).await;
            let (account, _) = opened.map_err(failed)?;
            if !settings.contacts.is_empty() {
                let contacts: Vec<&str> = settings.contacts.iter().map(String::as_str).collect();
                account.update_contacts(&contacts).await.map_err(failed)?;
            }
            account
        };
        Ok(Self { name: format!("acme {at}"), settings, account })
    }

    fn error(&self, error: instant_acme::Error) -> Error {
        transport::error(&self.settings.directory, error)
    }

    /// The order of the handle; none if the authority knows nothing of it.
    async fn order(&self, order: &Order) -> Result<Option<instant_acme::Order>, Error> {
        let Some(url) = &order.handle else { return Ok(None) };
        match self.account.order(url.clone()).await {
            Ok(order) => Ok(Some(order)),
            // An order of another account is nothing that this one could go on with.
            Err(instant_acme::Error::Api(problem)) if problem.status == Some(404) || is_foreign(&problem) => {
                Ok(None)
            }
            Err(error) => Err(self.error(error)),
        }
    }

    async fn request_order(&self, order: &Order) -> Result<String, Error> {
        if self.order(order).await?.is_some()
            && let Some(handle) = &order.handle
        {
            return Ok(handle.clone());
        }
        let names: Vec<_> = order.names.iter().map(|name| Identifier::Dns(name.to_string())).collect();
        let new = || {
            let new = NewOrder::new(&names);
            if let Some(profile) = &self.settings.profile { new.profile(profile) } else { new }
        };
        let old = order.replaces.as_deref().and_then(|chain| x509::leaf(chain).ok());
        if let Some(replaced) = old.as_ref().and_then(identifier) {
            // Saying what is replaced spares limits. Where it is not understood, or was replaced before, it is left out.
            match self.account.new_order(&new().replaces(replaced)).await {
                Ok(made) => return Ok(made.url().to_owned()),
                Err(error) if transport::is_limit(&error) => return Err(self.error(error)),
                Err(error) => {
                    tracing::debug!(
                        error = &error as &dyn std::error::Error,
                        "an order without what it replaces"
                    );
                }
            }
        }
        let made = self.account.new_order(&new()).await.map_err(|error| self.error(error))?;
        Ok(made.url().to_owned())
    }

    async fn look_at(&self, order: &Order) -> Result<Look, Error> {
        if let Some(held) = order.held.as_deref().and_then(|chain| x509::leaf(chain).ok())
            && held.fits(order, SystemTime::now())?
        {
            return Ok(Look::Issued(held.certificate));
        }
        let Some(mut made) = self.order(order).await? else { return Ok(Look::Gone) };
        let failed = |error| self.error(error);
        if made.state().status == OrderStatus::Ready {
            made.finalize_csr(&signing_request(order)?).await.map_err(failed)?;
        }
        match made.state().status {
            OrderStatus::Pending => self.proofs(order, &mut made).await,
            OrderStatus::Ready | OrderStatus::Processing => Ok(pending(Vec::new(), "the authority to sign")),
            OrderStatus::Valid => {
                let Some(chain) = made.certificate().await.map_err(failed)? else {
                    return Ok(pending(Vec::new(), "the authority to hand the certificate out"));
                };
                let leaf = x509::leaf(&chain)?;
                if leaf.fits(order, SystemTime::now())? {
                    return Ok(Look::Issued(leaf.certificate));
                }
                Ok(Look::Failed {
                    reason: "the certificate is not for the stored key and names, or is over".into(),
                    remedy: "another order is needed".into(),
                })
            }
            OrderStatus::Invalid => {
                let mut reasons: Vec<String> = made.state().error.iter().map(words).collect();
                let mut authorizations = made.authorizations();
                while let Some(authorization) = authorizations.next().await {
                    let authorization = authorization.map_err(failed)?;
                    let identifier = authorization.identifier().to_string();
                    let problems =
                        authorization.challenges.iter().filter_map(|challenge| challenge.error.as_ref());
                    reasons.extend(problems.map(|problem| format!("{identifier}: {}", words(problem))));
                }
                if reasons.is_empty() {
                    reasons.push("the authority gave no reason; the order may have run out of time".into());
                }
                Ok(Look::Failed {
                    reason: reasons.join("; "),
                    remedy:
                        "see that the proof is seen from outside (records of the zone and their delegation, \
                             port 80 for HTTP), then order again"
                            .into(),
                })
            }
        }
    }

    async fn proofs(&self, order: &Order, made: &mut instant_acme::Order) -> Result<Look, Error> {
        let mut proofs = Vec::new();
        let mut told = true;
        let mut authorizations = made.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let authorization = authorization.map_err(|error| self.error(error))?;
            let accepted = authorization.status == AuthorizationStatus::Valid;
            let Some((proof, status)) = proof(order, authorization, accepted)? else { continue };
            told &= accepted || status != ChallengeStatus::Pending;
            proofs.push(proof);
        }
        let waits_for =
            if told { "the authority to check the proofs" } else { "the proofs to be put in place" };
        Ok(pending(proofs, waits_for))
    }

    async fn tell(&self, order: &Order) -> Result<(), Error> {
        let Some(mut made) = self.order(order).await? else { return Ok(()) };
        let mut authorizations = made.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization.map_err(|error| self.error(error))?;
            if authorization.status != AuthorizationStatus::Pending {
                continue;
            }
            let kind = challenge_kind(order, &authorization);
            let Some(mut challenge) = authorization.challenge(kind) else { continue };
            if challenge.status == ChallengeStatus::Pending {
                challenge.set_ready().await.map_err(|error| self.error(error))?;
            }
        }
        Ok(())
    }

    async fn ask_renewal(&self, order: &Order) -> Result<Renewal, Error> {
        let leaf = x509::held(order)?;
        let Some(id) = identifier(&leaf) else { return Ok(x509::renewal(&leaf.certificate)) };
        match self.account.renewal_info(&id).await {
            Ok((info, again)) => {
                let (start, end) = (
                    SystemTime::from(info.suggested_window.start),
                    SystemTime::from(info.suggested_window.end),
                );
                // Anywhere in the window, but for one certificate always the same.
                let mut hasher = DefaultHasher::new();
                leaf.certificate.serial.hash(&mut hasher);
                let share = (hasher.finish() >> 11) as f64 / (1_u64 << 53) as f64;
                let at = start + end.duration_since(start).unwrap_or_default().mul_f64(share);
                // The window of a short one may go on after it: there has to be time to have another one by then.
                let Certificate { not_before, not_after, .. } = leaf.certificate;
                let lifetime = not_after.duration_since(not_before).unwrap_or_default();
                let at = at.min(not_after - lifetime / 5);
                let explained = info.explanation_url.map(|url| format!(", see {url}")).unwrap_or_default();
                Ok(Renewal::ByOrder {
                    at,
                    ask_again_in: again.clamp(Duration::from_mins(1), Duration::from_hours(24)),
                    reason: format!("the authority asks for it{explained}"),
                })
            }
            Err(instant_acme::Error::Unsupported(_)) => Ok(x509::renewal(&leaf.certificate)),
            Err(error) => Err(self.error(error)),
        }
    }

    async fn give_up(&self, order: &Order) -> Result<(), Error> {
        let held = order.held.as_deref().and_then(|chain| x509::leaf(chain).ok());
        // What is over by itself needs nobody.
        if held.as_ref().is_some_and(|leaf| leaf.certificate.not_after <= SystemTime::now()) {
            return Ok(());
        }
        if let Some(mut made) = self.order(order).await?
            && made.state().status == OrderStatus::Pending
        {
            let mut authorizations = made.authorizations();
            while let Some(authorization) = authorizations.next().await {
                let mut authorization = authorization.map_err(|error| self.error(error))?;
                if authorization.status == AuthorizationStatus::Pending {
                    authorization.deactivate().await.map_err(|error| self.error(error))?;
                }
            }
        }
        // What somebody wrote over a certificate can't be revoked.
        let Some(leaf) = held else { return Ok(()) };
        let certificate = CertificateDer::from(leaf.der);
        let reason = Some(RevocationReason::CessationOfOperation);
        match self.account.revoke(&RevocationRequest { certificate: &certificate, reason }).await {
            Err(instant_acme::Error::Api(problem)) if is(&problem, "alreadyRevoked") => Ok(()),
            // The account was changed, or is not in force any more: nobody here can revoke it ever.
            Err(instant_acme::Error::Api(problem)) if is_foreign(&problem) => {
                tracing::warn!(
                    certificate.serial = leaf.certificate.serial,
                    said = words(&problem),
                    "a certificate is given up that can't be revoked, as it is of another ACME account"
                );
                Ok(())
            }
            other => other.map_err(|error| self.error(error)),
        }
    }
}

/// What an authority calls a certificate when it is asked about its renewal.
fn identifier(leaf: &x509::Leaf) -> Option<CertificateIdentifier<'static>> {
    let authority = leaf.authority.as_ref()?;
    Some(CertificateIdentifier::new(Der::from_slice(authority), Der::from_slice(&leaf.serial)))
}

fn pending(proofs: Vec<Proof>, waits_for: &str) -> Look {
    Look::Pending { proofs, waits_for: waits_for.into(), again_in: SOON }
}

fn signing_request(order: &Order) -> Result<Vec<u8>, Error> {
    let no_key = || Error::invalid("the order has no key", "make one and store it first");
    let key = order.key.as_ref().ok_or_else(no_key)?.pair()?;
    let names: Vec<_> = order.names.iter().map(ToString::to_string).collect();
    let failed = |error| Error::unavailable("the signing request", error);
    let mut params = rcgen::CertificateParams::new(names).map_err(failed)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    Ok(params.serialize_request(&key).map_err(failed)?.der().to_vec())
}

/// Wildcards can be proven by DNS only.
fn challenge_kind(order: &Order, authorization: &AuthorizationHandle<'_>) -> ChallengeType {
    match order.proof {
        ProofKind::Http if !authorization.wildcard => ChallengeType::Http01,
        ProofKind::Http | ProofKind::Dns => ChallengeType::Dns01,
    }
}

/// What proves a name. One that is proven already may offer nothing more.
fn proof(
    order: &Order,
    authorization: AuthorizationHandle<'_>,
    accepted: bool,
) -> Result<Option<(Proof, ChallengeStatus)>, Error> {
    // Of a lifetime of its own, which asking for a challenge takes.
    let mut authorization = authorization;
    let kind = challenge_kind(order, &authorization);
    let by_dns = kind == ChallengeType::Dns01;
    let identifier = authorization.identifier();
    let Identifier::Dns(domain) = identifier.identifier else { return Ok(None) };
    let domain = Name::parse(domain)?;
    let Some(challenge) = authorization.challenge(kind) else {
        if accepted {
            return Ok(None);
        }
        let way = if by_dns { "DNS" } else { "HTTP" };
        return Err(Error::invalid(
            format!("the authority takes no proof of {domain} by {way}"),
            "choose the other kind of proof",
        ));
    };
    let answer = challenge.key_authorization();
    let what = if by_dns {
        ProofData::Txt { name: domain.below("_acme-challenge"), text: answer.dns_value() }
    } else {
        ProofData::Http {
            host: domain.clone(),
            path: format!("/.well-known/acme-challenge/{}", challenge.token),
            body: answer.as_str().to_owned(),
        }
    };
    let problem = challenge.error.as_ref().map(words);
    let status = challenge.status;
    Ok(Some((Proof { domain, what, accepted, problem }, status)))
}

fn is(problem: &Problem, kind: &str) -> bool {
    let name = problem.r#type.as_deref().and_then(|name| name.strip_prefix("urn:ietf:params:acme:error:"));
    name == Some(kind)
}

/// Whether something is refused as it is not this account's.
fn is_foreign(problem: &Problem) -> bool {
    matches!(problem.status, Some(401 | 403)) && (problem.r#type.is_none() || is(problem, "unauthorized"))
}

fn words(problem: &Problem) -> String {
    let detail = problem.detail.clone().or_else(|| problem.r#type.clone());
    let mut text = detail.unwrap_or_else(|| "no reason given".into());
    for part in &problem.subproblems {
        text.push_str("; ");
        text.push_str(&part.to_string());
    }
    causeway_base::report::cut(&text, 600)
}

impl CertificateIssuer for Issuer {
    fn name(&self) -> &str {
        &self.name
    }

    fn wants_key(&self) -> bool {
        true
    }

    fn request<'a>(&'a self, order: &'a Order) -> BoxFuture<'a, Result<String, Error>> {
        self.request_order(order).boxed()
    }

    fn look<'a>(&'a self, order: &'a Order) -> BoxFuture<'a, Result<Look, Error>> {
        self.look_at(order).boxed()
    }

    fn proofs_served<'a>(&'a self, order: &'a Order) -> BoxFuture<'a, Result<(), Error>> {
        self.tell(order).boxed()
    }

    fn renewal<'a>(&'a self, order: &'a Order) -> BoxFuture<'a, Result<Renewal, Error>> {
        self.ask_renewal(order).boxed()
    }

    /// The authority does not know who uses a certificate.
    fn in_use<'a>(&'a self, _order: &'a Order) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        async { Ok(Vec::new()) }.boxed()
    }

    fn remove<'a>(&'a self, order: &'a Order) -> BoxFuture<'a, Result<(), Error>> {
        self.give_up(order).boxed()
    }
}
