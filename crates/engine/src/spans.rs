//! Spans of requests: which trace a request belongs to, and what is known of it when it is over. No request waits for
//! whoever takes spans; what finds no room is counted as lost.

#[cfg(feature = "otlp")]
pub mod otlp;

use std::net::IpAddr;
use std::sync::Arc;

use causeway_base::random;
use causeway_ir::Name;
use causeway_ir::http::Scheme;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::mpsc;

/// Spans that may wait to be taken.
const QUEUE: usize = 4096;

/// The field by which requests tell their trace, of W3C Trace Context.
pub(crate) const TRACEPARENT: &str = "traceparent";
/// What others keep beside it.
const TRACESTATE: &str = "tracestate";

/// The way of spans out of an engine.
#[derive(Debug, Clone)]
pub struct Spans {
    queue: mpsc::Sender<Span>, // cores → whoever takes them
    /// Of the requests that belong to no trace, how many begin one: from 0 to 1.
    share: f64,
    /// Spans that nobody got.
    pub lost: Counter,
    /// Spans that somebody got.
    pub sent: Counter,
}

/// What is known of a request that is over.
#[derive(Debug)]
pub struct Span {
    /// Where it belongs.
    pub trace: Trace,
    /// Nanoseconds since 1970.
    pub times: (u64, u64),
    /// As the client asked.
    pub method: Box<str>,
    /// As the client asked.
    pub scheme: Scheme,
    /// The host that was asked for.
    pub host: Box<str>,
    /// Without what follows `?`.
    pub path: Box<str>,
    /// Of the answer; 499 for a client that left.
    pub status: u16,
    /// Who asked, as far as it is known.
    pub client: IpAddr,
    /// The listener's name.
    pub listener: Arc<str>,
    /// The route's name, if there was one.
    pub route: Option<Arc<str>>,
    /// The cluster that it went to, if it did.
    pub cluster: Option<Name>,
    /// The endpoint that had it last.
    pub endpoint: Option<String>,
    /// How often endpoints were tried.
    pub attempts: u32,
}

/// Where a span stands in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trace {
    /// The trace.
    pub id: [u8; 16],
    /// The span that it is part of, if the client said so.
    pub parent: Option<[u8; 8]>,
    /// The span itself.
    pub span: [u8; 8],
}

impl Spans {
    /// A way, and its end.
    pub fn new(share: f64) -> (Self, mpsc::Receiver<Span>) {
        let (queue, spans_rx) = mpsc::channel(QUEUE);
        (Self { queue, share, lost: Counter::default(), sent: Counter::default() }, spans_rx)
    }

    /// Where the span of a request stands that tells this of its trace; none if nobody wants one.
    pub(crate) fn begin(&self, told: Option<&[u8]>) -> Option<Trace> {
        let span = random::number().to_be_bytes();
        match told.and_then(read) {
            Some((id, parent, is_wanted)) => is_wanted.then_some(Trace { id, parent: Some(parent), span }),
            None if random::fraction() < self.share => {
                let mut id = [0; 16];
                id[..8].copy_from_slice(&random::number().to_be_bytes());
                id[8..].copy_from_slice(&random::number().to_be_bytes());
                Some(Trace { id, parent: None, span })
            }
            None => None,
        }
    }

    /// Hands a span on, if there is room.
    pub(crate) fn pass(&self, span: Span) {
        if self.queue.try_send(span).is_err() {
            self.lost.inc();
        }
    }
}

impl Trace {
    /// Whether a field of a request gives way to what is written here.
    pub(crate) fn replaces(&self, name: &[u8]) -> bool {
        // What was kept beside a trace is nothing to another one.
        name.eq_ignore_ascii_case(TRACEPARENT.as_bytes())
            || self.parent.is_none() && name.eq_ignore_ascii_case(TRACESTATE.as_bytes())
    }

    /// Writes the line that makes whatever comes of the request a part of its span.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        for part in [TRACEPARENT, ": 00-", &hex(&self.id), "-", &hex(&self.span), "-01\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The trace, the parent, and whether spans are wanted; none if it is not told as it should be.
fn read(text: &[u8]) -> Option<([u8; 16], [u8; 8], bool)> {
    let text = std::str::from_utf8(text).ok()?;
    let mut parts = text.split('-');
    let version = number::<1>(parts.next()?)?;
    let id = number::<16>(parts.next()?).filter(|id| *id != [0; 16])?;
    let parent = number::<8>(parts.next()?).filter(|parent| *parent != [0; 8])?;
    let flags = number::<1>(parts.next()?)?;
    // Later versions may say more.
    let is_known = match version {
        [0] => parts.next().is_none(),
        [0xff] => false,
        _ => true,
    };
    is_known.then_some((id, parent, flags[0] & 1 == 1))
}

fn number<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let text = text.as_bytes();
    let mut number = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (byte, pair) in number.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_trace_goes_on_where_its_client_wants_that() {
        let (none, _none_rx) = Spans::new(0.0);
        let trace = none.begin(Some(TOLD.as_bytes())).unwrap();
        assert_eq!(hex(&trace.id), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(hex(&trace.parent.unwrap()), "b7ad6b7169203331");
        assert_ne!(trace.parent, Some(trace.span));
        let mut out = Vec::new();
        trace.write(&mut out);
        let line = format!("traceparent: 00-0af7651916cd43dd8448eb211c80319c-{}-01\r\n", hex(&trace.span));
        assert_eq!(String::from_utf8(out).unwrap(), line);
        assert!(trace.replaces(b"Traceparent") && !trace.replaces(b"tracestate"));
        let unwanted = TOLD.replace("-01", "-00");
        for told in [None, Some(unwanted.as_bytes()), Some(b"junk")] {
            assert_eq!(none.begin(told), None);
        }
        let (all, _all_rx) = Spans::new(1.0);
        assert_eq!(all.begin(Some(unwanted.as_bytes())), None);
        let begun = all.begin(Some(b"junk")).unwrap();
        assert!(begun.parent.is_none() && begun.replaces(b"TraceState"));
        assert_ne!(all.begin(None).unwrap().id, begun.id);
    }

    #[test]
    fn what_is_no_trace_is_none() {
        for (text, is_one) in [
            (TOLD.to_owned(), true),
            (TOLD.replacen("00-", "01-", 1), true),
            (format!("{}-more", TOLD.replacen("00-", "01-", 1)), true),
            (format!("{TOLD}-more"), false),
            (TOLD.replacen("00-", "ff-", 1), false),
            (TOLD.to_uppercase(), false),
            (TOLD.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)), false),
            (TOLD.replace("b7ad6b7169203331", &"0".repeat(16)), false),
            (TOLD.replace("-01", "-1"), false),
            (format!("{TOLD},{TOLD}"), false),
            (String::new(), false),
        ] {
            assert_eq!(read(text.as_bytes()).is_some(), is_one, "{text}");
        }
    }
}
