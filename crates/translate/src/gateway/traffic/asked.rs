//! What a policy asks for, in the words of a plan, and what of it can't be carried out.

use std::net::IpAddr;

use causeway_api as api;
use causeway_ir::http::{
    ErrorPage, ForwardedHeader, HeaderName, HeaderValue, Page, Policies, RateLimit, Regex, RegexRewrite,
    Response, TrustedProxies,
};
use causeway_ir::{Limit, Name, Period, Size, duration};
use ipnet::IpNet;

use crate::gateway::ObjectRef;
use crate::gateway::kinds::TrafficPolicy;
use crate::naming::name;

/// A field of a policy, in the order in which they are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    /// All of them, where what is asked can't be read.
    Unreadable,
    TrustedProxies,
    AllowedClients,
    RateLimit,
    BodyLimit,
    ErrorPages,
    PathRewrite,
    Failover,
    Connect,
    DirectResponse,
}

impl Field {
    pub(super) const ALL: [Self; 10] = [
        Self::Unreadable,
        Self::TrustedProxies,
        Self::AllowedClients,
        Self::RateLimit,
        Self::BodyLimit,
        Self::ErrorPages,
        Self::PathRewrite,
        Self::Failover,
        Self::Connect,
        Self::DirectResponse,
    ];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "spec",
            Self::TrustedProxies => "trustedProxies",
            Self::AllowedClients => "allowedClients",
            Self::RateLimit => "rateLimit",
            Self::BodyLimit => "bodyLimit",
            Self::ErrorPages => "errorPages",
            Self::PathRewrite => "pathRewrite",
            Self::Failover => "failover",
            Self::Connect => "connect",
            Self::DirectResponse => "directResponse",
        }
    }

    /// Whether it keeps requests out, so that one of them does not replace another.
    pub(super) fn limits(self) -> bool {
        matches!(self, Self::Unreadable | Self::AllowedClients | Self::RateLimit | Self::BodyLimit)
    }
}

/// A Service that stands by.
pub(super) struct Standby {
    /// As it is written.
    pub(super) name: String,
    pub(super) namespace: String,
}

impl Standby {
    /// Whether a cluster is one of its ports.
    pub(super) fn is(&self, cluster: &Name) -> bool {
        let ours =
            |rest: &str| rest.strip_prefix(self.name.as_str()).is_some_and(|rest| rest.starts_with(':'));
        cluster
            .strip_prefix(self.namespace.as_str())
            .and_then(|rest| rest.strip_prefix('/'))
            .is_some_and(ours)
    }
}

/// What a policy asks for.
#[derive(Default)]
pub(super) struct Asked {
    /// The fields that are there, right or wrong.
    pub(super) written: Vec<Field>,
    wrong: Vec<(Field, String)>,
    pub(super) trusted_proxies: Option<TrustedProxies>,
    pub(super) policies: Policies,
    /// The pages that `policies` name.
    pub(super) pages: Vec<Page>,
    pub(super) rewrite: Option<RegexRewrite>,
    pub(super) standby: Vec<Standby>,
    pub(super) response: Option<Response>,
}

impl Asked {
    /// What a policy asks for.
    pub(super) fn of(policy: &TrafficPolicy) -> Self {
        if let Some(why) = &policy.unreadable {
            let wrong = vec![(Field::Unreadable, format!("it can't be read: {why}"))];
            return Self { written: vec![Field::Unreadable], wrong, ..Self::default() };
        }
        Self::read(&policy.spec, &policy.meta.at)
    }

    fn read(spec: &api::TrafficPolicySpec, at: &ObjectRef) -> Self {
        let namespace = &at.namespace;
        let mut asked = Self::default();
        asked.trusted_proxies =
            asked.take(Field::TrustedProxies, spec.trusted_proxies.as_ref(), trusted_proxies);
        let clients = |written: &[String]| networks("allowedClients", written);
        asked.policies.allowed_clients =
            asked.take(Field::AllowedClients, spec.allowed_clients.as_deref(), clients).unwrap_or_default();
        asked.policies.rate_limit = asked.take(Field::RateLimit, spec.rate_limit.as_ref(), rate_limit);
        asked.policies.body_limit = asked.take(Field::BodyLimit, spec.body_limit.as_deref(), body_limit);
        let pages = |written: &[api::ErrorPage]| error_pages(written, at);
        (asked.policies.error_pages, asked.pages) =
            asked.take(Field::ErrorPages, spec.error_pages.as_deref(), pages).unwrap_or_default();
        asked.policies.connect =
            asked.take(Field::Connect, spec.connect.as_ref(), |connect| Ok(*connect)).unwrap_or_default();
        asked.rewrite = asked.take(Field::PathRewrite, spec.path_rewrite.as_ref(), rewrite);
        let standby = |written: &api::Failover| standby(written, namespace);
        asked.standby = asked.take(Field::Failover, spec.failover.as_ref(), standby).unwrap_or_default();
        asked.response = asked.take(Field::DirectResponse, spec.direct_response.as_ref(), response);
        asked
    }

    fn take<W: ?Sized, T>(
        &mut self,
        field: Field,
        written: Option<&W>,
        read: impl FnOnce(&W) -> Result<T, String>,
    ) -> Option<T> {
        let written = written?;
        self.written.push(field);
        read(written).map_err(|why| self.wrong.push((field, why))).ok()
    }

    /// Whether a field can't be carried out.
    pub(super) fn is_wrong(&self, field: Field) -> bool {
        self.wrong.iter().any(|(wrong, _)| *wrong == field)
    }

    /// What is wrong with it wherever it is for.
    pub(super) fn problems(&self) -> Vec<String> {
        if self.written.is_empty() {
            let fields = Field::ALL.iter().filter(|field| **field != Field::Unreadable);
            let fields: Vec<&str> = fields.map(|field| field.as_str()).collect();
            return vec![format!("it asks for nothing: write one of {}", fields.join(", "))];
        }
        self.wrong.iter().map(|(_, why)| why.clone()).collect()
    }
}

fn networks(path: &str, written: &[String]) -> Result<Vec<IpNet>, String> {
    if written.is_empty() {
        return Err(format!("{path}: no network is in this list: leave the field out if everybody is meant"));
    }
    let network = |(number, text): (usize, &String)| {
        let address = || text.parse::<IpAddr>().ok().map(IpNet::from);
        text.parse::<IpNet>().ok().or_else(address).map(|network| network.trunc()).ok_or_else(|| {
            format!("{path}[{number}]: `{text}` is not a network: write one like 192.0.2.0/24, or an address")
        })
    };
    written.iter().enumerate().map(network).collect()
}

fn trusted_proxies(written: &api::TrustedProxies) -> Result<TrustedProxies, String> {
    let header = match written.header {
        None | Some(api::ForwardedHeader::XForwardedFor) => ForwardedHeader::XForwardedFor,
        Some(api::ForwardedHeader::Forwarded) => ForwardedHeader::Forwarded,
    };
    Ok(TrustedProxies { from: networks("trustedProxies.from", &written.from)?, header })
}

fn rate_limit(written: &api::ClientRateLimit) -> Result<RateLimit, String> {
    let limit = |field: &str, count: u32| {
        Limit::new(count).ok_or_else(|| format!("rateLimit.{field}: 0 lets nobody in: write 1 or more"))
    };
    let per = written.per.as_deref().unwrap_or("1s");
    let time = duration::parse(per).map_err(|why| format!("rateLimit.per: {why}"))?;
    Ok(RateLimit {
        requests: limit("requests", written.requests)?,
        per: Period::new(time)
            .ok_or_else(|| format!("rateLimit.per: `{per}` is no time at all: write 1s or more"))?,
        burst: written.burst.map(|burst| limit("burst", burst)).transpose()?,
    })
}

fn body_limit(written: &str) -> Result<Size, String> {
    let size = Size::parse(written).map_err(|why| format!("bodyLimit: {why}"))?;
    if size.bytes() == 0 {
        return Err(format!("bodyLimit: `{written}` lets no body through: write a size like 1Mi"));
    }
    Ok(size)
}

/// Which page is for which statuses, and the pages.
fn error_pages(written: &[api::ErrorPage], at: &ObjectRef) -> Result<(Vec<ErrorPage>, Vec<Page>), String> {
    let mut seen = std::collections::BTreeMap::new();
    let (mut said, mut pages) = (Vec::new(), Vec::new());
    for (number, page) in written.iter().enumerate() {
        if page.statuses.is_empty() {
            return Err(format!(
                "errorPages[{number}].statuses: no status is in this list: write 400 to 599"
            ));
        }
        for status in &page.statuses {
            let path = || format!("errorPages[{number}].statuses");
            if !(400..600).contains(status) {
                return Err(format!("{}: {status} is not the status of an error: write 400 to 599", path()));
            }
            if let Some(first) = seen.insert(*status, number) {
                return Err(format!(
                    "{}: {status} has a page already, errorPages[{first}]: leave one out",
                    path()
                ));
            }
        }
        let path = format!("errorPages[{number}].contentType");
        let content_type = content_type(&path, page.content_type.as_deref(), "text/html; charset=utf-8")?;
        let name = name(&format!("{at}#{number}"));
        said.push(ErrorPage { statuses: page.statuses.clone(), page: name.clone() });
        pages.push(Page { name, content_type, body: page.body.clone() });
    }
    Ok((said, pages))
}

fn content_type(path: &str, written: Option<&str>, default: &str) -> Result<String, String> {
    let text = written.unwrap_or(default);
    if text.is_empty() || !text.bytes().all(|byte| (b' '..0x7f).contains(&byte)) {
        return Err(format!("{path}: `{}` is not a type: write one like text/html", text.escape_debug()));
    }
    Ok(text.to_owned())
}

fn rewrite(written: &api::RegexRewrite) -> Result<RegexRewrite, String> {
    let pattern = Regex::parse(&written.pattern).map_err(|why| format!("pathRewrite.pattern: {why}"))?;
    let with = &written.replacement;
    let path = "pathRewrite.replacement";
    if !with.starts_with('/') || with.contains(['?', '#', ' ']) {
        return Err(format!(
            "{path}: `{with}` is not a path: it begins with / and has no spaces, `?` or `#`"
        ));
    }
    if let Some(group) = pattern.unknown_group(with) {
        return Err(format!(
            "{path}: the expression has no group `{group}`: write ${{1}} if a letter follows the number"
        ));
    }
    Ok(RegexRewrite { pattern, with: with.clone() })
}

fn standby(written: &api::Failover, namespace: &str) -> Result<Vec<Standby>, String> {
    if written.standby.is_empty() {
        return Err("failover.standby: no backend is in this list: write the name of one".to_owned());
    }
    let standby = written.standby.iter().map(|backend| Standby {
        name: backend.name.clone(),
        namespace: backend.namespace.clone().unwrap_or_else(|| namespace.to_owned()),
    });
    Ok(standby.collect())
}

fn response(written: &api::DirectResponse) -> Result<Response, String> {
    let status = written.status.unwrap_or(200);
    if !(200..600).contains(&status) {
        return Err(format!(
            "directResponse.status: {status} is not the status of an answer: write 200 to 599"
        ));
    }
    let body = written.body.clone().unwrap_or_default();
    let path = "directResponse.contentType";
    let value = content_type(path, written.content_type.as_deref(), "text/plain; charset=utf-8")?;
    let name = HeaderName::parse("content-type").map_err(|why| format!("{path}: {why}"))?;
    let headers = if body.is_empty() { Vec::new() } else { vec![HeaderValue { name, value }] };
    Ok(Response { status, headers, body })
}
