//! Certificates of ACM, proven by a CNAME for each name. The private key never leaves Amazon.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest::{SHA256, digest};
use aws_sdk_acm::Client;
use aws_sdk_acm::error::SdkError;
use aws_sdk_acm::operation::describe_certificate::DescribeCertificateError;
use aws_sdk_acm::operation::list_tags_for_certificate::ListTagsForCertificateError;
use aws_sdk_acm::types::{
    CertificateDetail, CertificateStatus, CertificateSummary, DomainStatus, DomainValidation, KeyAlgorithm,
    Tag, ValidationMethod,
};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::Mutex;

use super::{Settings, error};
use crate::certificate::{Certificate, CertificateIssuer, Look, Material, Order, Proof, ProofData, Renewal};
use crate::x509::hex;
use crate::{Error, Name};

/// The tag with the order that a certificate was asked for by.
const TAG: &str = "causeway.dev/order";
/// Between two looks at what Amazon works on.
const SOON: Duration = Duration::from_secs(10);

/// ACM in a region.
pub struct Acm {
    client: Client,
    name: String,
    /// What there was before this process asked for anything, since an earlier one may have been killed before it stored
    /// what it got; and what this process asked for.
    known: Mutex<Option<Vec<CertificateSummary>>>,
}

impl Acm {
    /// Nobody is asked yet.
    ///
    /// # Errors
    /// When there is no region.
    pub async fn new(settings: &Settings) -> Result<Self, Error> {
        let config = settings.load().await?;
        let region = config.region().map(ToString::to_string);
        let region = region.ok_or_else(|| {
            Error::invalid("no region for ACM", "name one in the settings, or set AWS_REGION")
        })?;
        Ok(Self { client: Client::new(&config), name: format!("acm {region}"), known: Mutex::new(None) })
    }

    fn error<E>(&self, action: &str, failed: SdkError<E>) -> Error
    where
        E: aws_sdk_acm::error::ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        error(&self.name, action, failed)
    }

    /// The certificate of the order; none if it is gone.
    async fn describe(&self, arn: &str) -> Result<Option<CertificateDetail>, Error> {
        match self.client.describe_certificate().certificate_arn(arn).send().await {
            Ok(answer) => Ok(answer.certificate),
            Err(failed)
                if failed
                    .as_service_error()
                    .is_some_and(DescribeCertificateError::is_resource_not_found_exception) =>
            {
                Ok(None)
            }
            Err(failed) => Err(self.error("acm:DescribeCertificate", failed)),
        }
    }

    async fn certificates(&self) -> Result<Vec<CertificateSummary>, Error> {
        let filters = aws_sdk_acm::types::Filters::builder()
            // Without a list of kinds only those with 2048 bits of RSA are told.
            .key_types(KeyAlgorithm::Rsa2048)
            .key_types(KeyAlgorithm::EcPrime256v1)
            .build();
        let mut pages =
            self.client.list_certificates().includes(filters).max_items(1000).into_paginator().send();
        let mut all = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|failed| self.error("acm:ListCertificates", failed))?;
            all.extend(page.certificate_summary_list.unwrap_or_default());
        }
        Ok(all)
    }

    /// What an earlier call made for the order, by what is known of certificates, or by what there is now.
    async fn find(&self, order: &Order, now: bool) -> Result<Option<String>, Error> {
        let Some(first) = order.names.first() else { return Ok(None) };
        let mut known = self.known.lock().await;
        if now {
            *known = None;
        }
        let known = match &mut *known {
            Some(known) => known,
            none => none.insert(self.certificates().await?),
        };
        let same_name = |summary: &&CertificateSummary| summary.domain_name() == Some(first.as_str());
        for arn in known.iter().filter(same_name).filter_map(|summary| summary.certificate_arn()) {
            let tags = self.client.list_tags_for_certificate().certificate_arn(arn).send().await;
            let tags = match tags {
                Ok(tags) => tags.tags.unwrap_or_default(),
                Err(failed)
                    if failed
                        .as_service_error()
                        .is_some_and(ListTagsForCertificateError::is_resource_not_found_exception) =>
                {
                    continue;
                }
                Err(failed) => return Err(self.error("acm:ListTagsForCertificate", failed)),
            };
            if tags.iter().any(|tag| tag.key() == TAG && tag.value() == Some(tag_of(order).as_str())) {
                return Ok(Some(arn.to_owned()));
            }
        }
        Ok(None)
    }

    async fn ask(&self, order: &Order) -> Result<String, Error> {
        if let Some(handle) = &order.handle {
            return Ok(handle.clone());
        }
        if let Some(found) = self.find(order, false).await? {
            return Ok(found);
        }
        let Some((first, others)) = order.names.split_first() else {
            return Err(Error::invalid("an order without names", "name at least one"));
        };
        let tag = Tag::builder().key(TAG).value(tag_of(order)).build();
        let tag = tag.map_err(|failed| Error::unavailable(&self.name, failed))?;
        let others: Vec<String> = others.iter().map(ToString::to_string).collect();
        let answer = self
            .client
            .request_certificate()
            .domain_name(first.as_str())
            .set_subject_alternative_names((!others.is_empty()).then_some(others))
            .validation_method(ValidationMethod::Dns)
            .idempotency_token(token(order))
            .tags(tag)
            .send()
            .await
            .map_err(|failed| self.error("acm:RequestCertificate and acm:AddTagsToCertificate", failed))?;
        let arn =
            answer.certificate_arn.ok_or_else(|| Error::unavailable(&self.name, "no ARN in the answer"))?;
        // A token is good for an hour; whoever asks later without having stored the answer finds it here.
        let made = CertificateSummary::builder().certificate_arn(&arn).domain_name(first.as_str()).build();
        self.known.lock().await.get_or_insert_default().push(made);
        Ok(arn)
    }

    async fn look_at(&self, order: &Order) -> Result<Look, Error> {
        let Some(arn) = &order.handle else { return Ok(Look::Gone) };
        let Some(detail) = self.describe(arn).await? else { return Ok(Look::Gone) };
        let failed = |reason: String, remedy: &str| Ok(Look::Failed { reason, remedy: remedy.into() });
        match detail.status() {
            Some(CertificateStatus::Issued) => Ok(Look::Issued(certificate(arn, &detail)?)),
            Some(CertificateStatus::PendingValidation) => Ok(pending(&detail)),
            Some(CertificateStatus::ValidationTimedOut) => failed(
                format!("the proofs were not seen within 72 hours: {}", missing(&detail)),
                "see that the zone is delegated and the records are served, then order again",
            ),
            Some(CertificateStatus::Failed) => {
                let reason = detail.failure_reason().map_or("no reason given", |reason| reason.as_str());
                let remedy = match reason {
                    "CAA_ERROR" => "allow amazon.com in the CAA records of the domain, then order again",
                    "DOMAIN_NOT_ALLOWED" => "Amazon has the domain on a list of unsafe ones: ask AWS",
                    "NO_AVAILABLE_CONTACTS" | "ADDITIONAL_VERIFICATION_REQUIRED" => "ask AWS's support",
                    _ => "see ACM's troubleshooting of this reason, then order again",
                };
                failed(reason.to_owned(), remedy)
            }
            other => {
                let status = other.map_or("no status", |status| status.as_str());
                failed(format!("the certificate is {status}"), "another order is needed")
            }
        }
    }

    async fn delete(&self, order: &Order) -> Result<(), Error> {
        let arn = match &order.handle {
            Some(handle) => handle.clone(),
            None => match self.find(order, true).await? {
                Some(found) => found,
                None => return Ok(()),
            },
        };
        let Some(detail) = self.describe(&arn).await? else { return Ok(()) };
        if !detail.in_use_by().is_empty() {
            return Err(Error::InUse { by: detail.in_use_by().to_vec() });
        }
        match self.client.delete_certificate().certificate_arn(arn).send().await {
            Ok(_) => Ok(()),
            Err(failed) => match failed.as_service_error() {
                Some(e) if e.is_resource_not_found_exception() => Ok(()),
                Some(e) if e.is_resource_in_use_exception() => {
                    Err(Error::InUse { by: vec!["something that ACM does not name yet".into()] })
                }
                _ => Err(self.error("acm:DeleteCertificate", failed)),
            },
        }
    }
}

fn tag_of(order: &Order) -> String {
    format!("{}/{}", order.id, order.serial)
}

/// The same for the same order and names, so that asking twice within an hour is asking once.
fn token(order: &Order) -> String {
    let mut text = tag_of(order);
    for name in &order.names {
        text.push(' ');
        text.push_str(name.as_str());
    }
    let hash = digest(&SHA256, text.as_bytes());
    hex(&hash.as_ref()[..16])
}

fn time(time: Option<&aws_smithy_types::DateTime>) -> SystemTime {
    time.and_then(|time| SystemTime::try_from(*time).ok()).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn certificate(arn: &str, detail: &CertificateDetail) -> Result<Certificate, Error> {
    let names: Result<BTreeSet<Name>, Error> = detail
        .domain_name()
        .into_iter()
        .chain(detail.subject_alternative_names().iter().map(String::as_str))
        .map(Name::parse)
        .collect();
    Ok(Certificate {
        material: Material::Arn(arn.to_owned()),
        names: names?,
        issuer: detail.issuer().unwrap_or("Amazon").to_owned(),
        serial: detail.serial().unwrap_or_default().replace(':', ""),
        not_before: time(detail.not_before()),
        not_after: time(detail.not_after()),
    })
}

fn proofs(detail: &CertificateDetail) -> Vec<Proof> {
    let options = detail.domain_validation_options().iter();
    options
        .filter_map(|option| {
            let record = option.resource_record()?;
            let what = ProofData::Cname {
                name: Name::parse(record.name()).ok()?,
                target: Name::parse(record.value()).ok()?,
            };
            let failed = option.validation_status() == Some(&DomainStatus::Failed);
            Some(Proof {
                domain: Name::parse(option.domain_name()).ok()?.base(),
                what,
                accepted: option.validation_status() == Some(&DomainStatus::Success),
                problem: failed.then(|| "ACM did not see the record".to_owned()),
            })
        })
        .collect()
}

fn missing(detail: &CertificateDetail) -> String {
    let missing =
        proofs(detail).into_iter().filter(|proof| !proof.accepted).filter_map(|proof| match proof.what {
            ProofData::Cname { name, target } => Some(format!("{name} CNAME {target}")),
            _ => None,
        });
    missing.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ")
}

fn pending(detail: &CertificateDetail) -> Look {
    let proofs = proofs(detail);
    let names: BTreeSet<&str> =
        detail.domain_validation_options().iter().map(DomainValidation::domain_name).collect();
    // The records of an order take Amazon a few seconds.
    let complete = !names.is_empty()
        && detail.domain_validation_options().iter().all(|option| option.resource_record().is_some());
    if !complete {
        return Look::Pending {
            proofs: Vec::new(),
            waits_for: "ACM to name the proofs".into(),
            again_in: SOON / 5,
        };
    }
    Look::Pending { waits_for: format!("ACM to see {}", missing(detail)), proofs, again_in: SOON }
}

impl CertificateIssuer for Acm {
    fn name(&self) -> &str {
        &self.name
    }

    fn wants_key(&self) -> bool {
        false
    }

    fn request<'a>(&'a self, order: &'a Order) -> BoxFuture<'a, Result<String, Error>> {
        self.ask(order).boxed()
    }

    fn look<'a>(&'a self, order: &'a Order) -> BoxFuture<'a, Result<Look, Error>> {
        self.look_at(order).boxed()
    }

    /// ACM looks by itself.
    fn proofs_served<'a>(&'a self, _order: &'a Order) -> BoxFuture<'a, Result<(), Error>> {
        async { Ok(()) }.boxed()
    }

    fn renewal<'a>(&'a self, _order: &'a Order) -> BoxFuture<'a, Result<Renewal, Error>> {
        async { Ok(Renewal::ByIssuer) }.boxed()
    }

    fn in_use<'a>(&'a self, order: &'a Order) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        async move {
            let Some(arn) = &order.handle else { return Ok(Vec::new()) };
            Ok(self.describe(arn).await?.map(|detail| detail.in_use_by().to_vec()).unwrap_or_default())
        }
        .boxed()
    }

    fn remove<'a>(&'a self, order: &'a Order) -> BoxFuture<'a, Result<(), Error>> {
        self.delete(order).boxed()
    }
}
