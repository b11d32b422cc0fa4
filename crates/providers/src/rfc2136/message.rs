//! Questions, updates and answers, as messages.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode, UpdateMessage as _};
use hickory_proto::rr::rdata::tsig::{TsigAlgorithm, TsigError};
use hickory_proto::rr::rdata::{A, AAAA, CNAME, TXT};
use hickory_proto::rr::{DNSClass, Name as WireName, RData, Record, RecordType, TSigVerifier, TSigner};

use super::{Algorithm, Key};
use crate::dns::mark::{MARK_TTL, mark_name};
use crate::dns::{Found, Kind, Records, Zone};
use crate::{Error, Name};

pub(super) type Signer = TSigner;
pub(super) const SOA: RecordType = RecordType::SOA;

/// How far clocks may be apart, in seconds.
const FUDGE: u16 = 300;

pub(super) fn signer(key: &Key) -> Result<Signer, Error> {
    let remedy = "write the secret in base64, as the server's configuration has it";
    let broken = || Error::invalid(format!("the secret of the TSIG key {} can't be used", key.name), remedy);
    let secret = BASE64_STANDARD.decode(key.secret.expose().trim()).map_err(|_| broken())?;
    let algorithm = match key.algorithm {
        Algorithm::HmacSha256 => TsigAlgorithm::HmacSha256,
        Algorithm::HmacSha384 => TsigAlgorithm::HmacSha384,
        Algorithm::HmacSha512 => TsigAlgorithm::HmacSha512,
    };
    TSigner::new(secret, algorithm, wire(&key.name)?, FUDGE).map_err(|_| broken())
}

fn wire(name: &Name) -> Result<WireName, Error> {
    WireName::from_ascii(format!("{name}."))
        .map_err(|error| Error::invalid(format!("{name} can't be asked for"), error.to_string()))
}

/// A question.
pub(super) fn question(name: &Name, kind: RecordType) -> Result<Message, Error> {
    let mut message = Message::query();
    message.metadata.recursion_desired = false;
    message.add_query(Query::query(wire(name)?, kind));
    Ok(message)
}

fn empty_update(zone: &Zone) -> Result<Message, Error> {
    let mut message = Message::query();
    message.metadata.op_code = OpCode::Update;
    message.metadata.recursion_desired = false;
    message.add_zone(Query::query(wire(&zone.domain)?, RecordType::SOA));
    Ok(message)
}

/// A record without data, which in updates stands for all of a kind; its class says what is meant.
fn about(name: &WireName, kind: RecordType, class: DNSClass) -> Record {
    let mut record = Record::update0(name.clone(), 0, kind);
    record.dns_class = class;
    record
}

/// Changes nothing, and is done only if the name has records of its own.
pub(super) fn in_use(zone: &Zone, name: &Name) -> Result<Message, Error> {
    let mut message = empty_update(zone)?;
    message.add_pre_requisite(about(&wire(name)?, RecordType::ANY, DNSClass::ANY));
    Ok(message)
}

/// Makes of what was found at each name what there should be, marks included, if it is still so.
pub(super) fn update(zone: &Zone, writes: &[(&Name, (&Found, &Found))]) -> Result<Message, Error> {
    let mut message = empty_update(zone)?;
    for (name, (before, after)) in writes {
        let at = wire(name)?;
        for kind in [Kind::A, Kind::Aaaa, Kind::Cname, Kind::Txt] {
            let (old, new) = (before.records.get(&kind), after.records.get(&kind));
            let data =
                |records: Option<&Records>| records.map(rdata).transpose().map(Option::unwrap_or_default);
            let ttl = new.map_or(0, ttl);
            replace(&mut message, &at, wire_kind(kind), data(old)?, data(new)?, ttl, old != new);
        }
        let marks = |found: &Found| -> Vec<RData> {
            found.owners.iter().map(|owner| RData::TXT(TXT::new(vec![owner.mark()]))).collect()
        };
        let (old, new) = (marks(before), marks(after));
        let changed = old != new;
        replace(&mut message, &wire(&mark_name(name))?, RecordType::TXT, old, new, MARK_TTL, changed);
    }
    Ok(message)
}

fn replace(
    message: &mut Message,
    at: &WireName,
    kind: RecordType,
    old: Vec<RData>,
    new: Vec<RData>,
    ttl: u32,
    changed: bool,
) {
    if old.is_empty() {
        message.add_pre_requisite(about(at, kind, DNSClass::NONE));
    }
    for data in old {
        message.add_pre_requisite(Record::from_rdata(at.clone(), 0, data));
    }
    if changed {
        message.add_update(about(at, kind, DNSClass::ANY));
        message.add_updates(new.into_iter().map(|data| Record::from_rdata(at.clone(), ttl, data)));
    }
}

pub(super) fn wire_kind(kind: Kind) -> RecordType {
    match kind {
        Kind::A => RecordType::A,
        Kind::Aaaa => RecordType::AAAA,
        Kind::Cname => RecordType::CNAME,
        Kind::Txt => RecordType::TXT,
    }
}

fn ttl(records: &Records) -> u32 {
    match records {
        Records::A(_, ttl) | Records::Aaaa(_, ttl) | Records::Cname(_, ttl) | Records::Txt(_, ttl) => *ttl,
        Records::Alias(..) | Records::Other(_) => 0,
    }
}

fn rdata(records: &Records) -> Result<Vec<RData>, Error> {
    Ok(match records {
        Records::A(addresses, _) => addresses.iter().map(|ip| RData::A(A(*ip))).collect(),
        Records::Aaaa(addresses, _) => addresses.iter().map(|ip| RData::AAAA(AAAA(*ip))).collect(),
        Records::Cname(target, _) => vec![RData::CNAME(CNAME(wire(target)?))],
        Records::Txt(texts, _) => texts.iter().map(|text| RData::TXT(TXT::new(vec![text.clone()]))).collect(),
        Records::Alias(..) | Records::Other(_) => {
            return Err(Error::invalid("there are no alias records here", "write addresses or a CNAME"));
        }
    })
}

/// Signs a message and writes it down.
pub(super) fn seal(
    mut message: Message,
    signer: Option<&Signer>,
) -> Result<(Vec<u8>, Option<TSigVerifier>), Error> {
    let broken = |error| Error::unavailable("the encoder of DNS messages", error);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let verifier = signer.map(|signer| message.finalize(signer, now)).transpose().map_err(broken)?.flatten();
    Ok((message.to_vec().map_err(broken)?, verifier))
}

/// What a server says.
#[derive(Debug)]
pub(super) enum Answer {
    /// The records at a name; none if there is no such name.
    Records(Vec<Record>),
    /// An update is done.
    Done,
    /// A prerequisite of an update does not hold; nothing was changed.
    NotSo,
    /// Something with the key.
    Key(&'static str),
    /// It does not want to.
    Refused,
    /// It does not have the zone.
    NoZone,
    /// Anything else.
    Other(String),
}

/// Reads an answer, which must be signed if the question was.
pub(super) fn open(
    bytes: &[u8],
    id: u16,
    verifier: Option<TSigVerifier>,
) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
    let message = Message::from_vec(bytes)?;
    if message.metadata.id != id || message.metadata.message_type != MessageType::Response {
        return Err("the answer is to another question".into());
    }
    // A server that can't check a signature can't sign either, so these are told apart first.
    match message.signature().and_then(|record| record.data.error) {
        Some(TsigError::BadKey) => {
            return Ok(Answer::Key(
                "the server has no key of this name and algorithm, or, as Knot says it too, no acl that lets it update",
            ));
        }
        Some(TsigError::BadSig) => return Ok(Answer::Key("the server has another secret for this key")),
        Some(TsigError::BadTime) => return Ok(Answer::Key("the clocks are more than five minutes apart")),
        Some(other) => return Ok(Answer::Other(format!("TSIG error {}", u16::from(other)))),
        None => {}
    }
    let code = message.metadata.response_code;
    let unsigned_refusal = message.signature().is_none()
        && matches!(code, ResponseCode::Refused | ResponseCode::NotAuth | ResponseCode::ServFail);
    if let Some(mut verifier) = verifier.filter(|_| !unsigned_refusal) {
        verifier.verify(bytes)?;
    }
    let update = message.metadata.op_code == OpCode::Update;
    Ok(match code {
        ResponseCode::NoError if update => Answer::Done,
        ResponseCode::NXDomain | ResponseCode::YXDomain | ResponseCode::NXRRSet | ResponseCode::YXRRSet
            if update =>
        {
            Answer::NotSo
        }
        ResponseCode::NoError | ResponseCode::NXDomain => Answer::Records(message.answers),
        ResponseCode::Refused => Answer::Refused,
        ResponseCode::NotAuth | ResponseCode::NotZone => Answer::NoZone,
        other => Answer::Other(format!("{other}")),
    })
}

impl Answer {
    /// Whether these are the records of a zone's top.
    pub(super) fn has_soa(&self, domain: &Name) -> bool {
        let Self::Records(records) = self else { return false };
        records.iter().any(|record| record.record_type() == RecordType::SOA && is_at(record, domain))
    }

    /// What went wrong, for people.
    pub(super) fn error(&self, server: &str, domain: &Name, key: Option<&Name>) -> Error {
        let key = key.map_or("unsigned updates".to_owned(), |key| format!("the TSIG key {key}"));
        match self {
            Self::Key(said) => {
                Error::Denied { missing: format!("{key} at {server}"), said: (*said).to_owned() }
            }
            Self::Refused => Error::Denied {
                missing: format!(
                    "the permission of {key} to update {domain} at {server} (BIND: update-policy or allow-update; \
                     Knot: acl with action update)"
                ),
                said: "REFUSED".to_owned(),
            },
            Self::NoZone => Error::ZoneNotFound { zone: domain.to_string(), at: server.to_owned() },
            Self::Other(said) => Error::unavailable(server, format!("it answers {said}")),
            Self::Records(_) | Self::Done | Self::NotSo => {
                Error::unavailable(server, "it answers something else than was asked")
            }
        }
    }
}

fn is_at(record: &Record, name: &Name) -> bool {
    Name::parse(&record.name.to_ascii()).is_ok_and(|at| at == *name)
}

/// All of one kind that stands at this very name, out of an answer that may follow a CNAME.
pub(super) fn records_at(records: &[Record], name: &Name, kind: Kind) -> Option<Records> {
    let here: Vec<_> = records
        .iter()
        .filter(|record| record.record_type() == wire_kind(kind) && is_at(record, name))
        .collect();
    let ttl = here.first()?.ttl;
    Some(match kind {
        Kind::A => Records::A(
            here.iter()
                .filter_map(|r| if let RData::A(A(ip)) = &r.data { Some(*ip) } else { None })
                .collect(),
            ttl,
        ),
        Kind::Aaaa => Records::Aaaa(
            here.iter()
                .filter_map(|r| if let RData::AAAA(AAAA(ip)) = &r.data { Some(*ip) } else { None })
                .collect(),
            ttl,
        ),
        Kind::Cname => {
            let RData::CNAME(CNAME(target)) = &here[0].data else { return None };
            match Name::parse(&target.to_ascii()) {
                Ok(target) => Records::Cname(target, ttl),
                Err(_) => Records::Other(target.to_ascii()),
            }
        }
        Kind::Txt => {
            Records::Txt(here.iter().filter_map(|record| text(record)).collect::<BTreeSet<_>>(), ttl)
        }
    })
}

/// The parts of a text together, as everybody reads them.
pub(super) fn text(record: &Record) -> Option<String> {
    let RData::TXT(text) = &record.data else { return None };
    let bytes: Vec<u8> = text.txt_data.iter().flat_map(|part| part.iter().copied()).collect();
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
