//! What listeners that end TLS show to clients, and ask of them.

use causeway_ir::tls::{Age, ClientCertificateMode};
use k8s_openapi::jiff::Timestamp;

use super::{Bound, Clients, Protocol};
use crate::gateway::kinds::{FrontendValidation, Gateway};
use crate::gateway::picture::Certificate;
use crate::gateway::secrets::{Lookup, Wrong};
use crate::grants::Users;
use crate::references::Verdict;

/// Finds the certificates of a listener. One that has none stays accepted, so that whoever has certificates made by way of
/// the Gateway gets its first one.
pub(super) fn find_certificates(bound: &mut Bound<'_>, users: Users<'_>, lookup: &Lookup<'_>) {
    let references = bound.spec.tls.as_ref().map(|tls| tls.certificate_refs.as_slice()).unwrap_or_default();
    if references.is_empty() && bound.resolved.holds {
        let message = "tls.certificateRefs names no certificate: name a Secret that has one";
        bound.resolved = Verdict::no("InvalidCertificateRef", message);
    }
    for reference in references {
        match lookup.certificate(users, reference) {
            Ok(found) => {
                bound.ageing = bound.ageing.take().or_else(|| ageing(&found.1, lookup.now));
                bound.certificates.push(found);
            }
            Err(wrong) if bound.resolved.holds => {
                let reason = match wrong {
                    Wrong::NotPermitted(_) => "RefNotPermitted",
                    Wrong::Kind(_) | Wrong::Missing(_) => "InvalidCertificateRef",
                };
                bound.resolved = Verdict::no(reason, wrong.message());
            }
            Err(_) => {}
        }
    }
}

/// That clients refuse a certificate by its age, or soon will. It is served all the same: a few of them may not mind.
fn ageing(found: &Certificate, now: Timestamp) -> Option<Verdict> {
    let (validity, secret) = (found.pair.checked.as_ref().ok()?, &found.secret);
    let day = |seconds: i64| {
        Timestamp::from_second(seconds)
            .map(|at| at.strftime("%Y-%m-%d %H:%M UTC").to_string())
            .unwrap_or_default()
    };
    let (begins, expires) = (day(validity.begins), day(validity.expires));
    let (reason, message) = match validity.at(now.as_second()) {
        Age::Good => return None,
        Age::Ending => {
            ("ExpiresSoon", format!("the certificate of Secret {secret} expires {expires}: renew it"))
        }
        Age::Expired => (
            "Expired",
            format!("the certificate of Secret {secret} expired {expires}, clients refuse it: renew it"),
        ),
        Age::Early => (
            "NotYetValid",
            format!(
                "the certificate of Secret {secret} counts from {begins}, clients refuse it: wait, or correct the clocks"
            ),
        ),
    };
    Some(Verdict::yes(reason, message))
}

/// What the Gateway asks of clients on each port that ends TLS. Without one good authority a listener would let in
/// everybody or nobody: it is not accepted.
pub(super) fn ask_clients(bound: &mut [Bound<'_>], gateway: &Gateway, users: Users<'_>, lookup: &Lookup<'_>) {
    let ends_tls = |listener: &&mut Bound<'_>| {
        listener.protocol.is_some_and(Protocol::terminates) && listener.accepted.holds
    };
    for listener in bound.iter_mut().filter(ends_tls) {
        let Some(validation) = validation(gateway, listener.spec.port) else { continue };
        let (found, wrong) = lookup.authorities(users, &validation.ca_certificate_refs);
        if let Some(wrong) = wrong.first() {
            let reason = match wrong {
                Wrong::Kind(_) => "InvalidCACertificateKind",
                Wrong::NotPermitted(_) => "RefNotPermitted",
                Wrong::Missing(_) => "InvalidCACertificateRef",
            };
            listener.resolved = Verdict::no(reason, wrong.message());
        }
        let mode = mode(validation);
        match (found, mode) {
            (Some((name, bundle)), Ok(mode)) => listener.clients = Some(Clients { name, bundle, mode }),
            (None, _) => {
                let why = wrong.first().map_or("spec.tls.frontend names none", Wrong::message);
                let message = format!("no authority for clients' certificates can be had: {why}");
                listener.accepted = Verdict::no("NoValidCACertificate", message);
            }
            (_, Err(why)) => listener.accepted = Verdict::no("UnsupportedValue", why),
        }
    }
}

/// What is asked of clients on this port.
pub(super) fn validation(gateway: &Gateway, port: u16) -> Option<&FrontendValidation> {
    let frontend = gateway.spec.tls.as_ref()?.frontend.as_ref()?;
    let own = frontend.per_port.iter().find(|own| own.port == port);
    own.map_or(&frontend.default, |own| &own.tls).validation.as_ref()
}

fn mode(validation: &FrontendValidation) -> Result<ClientCertificateMode, String> {
    match validation.mode.as_deref() {
        None | Some("" | "AllowValidOnly") => Ok(ClientCertificateMode::Required),
        Some("AllowInsecureFallback") => Ok(ClientCertificateMode::InsecureFallback),
        Some(other) => Err(format!(
            "spec.tls.frontend: mode {other} is not known here: write AllowValidOnly or AllowInsecureFallback"
        )),
    }
}
