//! As much of HTTP/2 as the load and the backend need, made to cost little: header blocks are made once in the forms in
//! which they may have to be written, and of those that come only the status is looked at.

mod block;

use anyhow::{bail, ensure};

use block::Form;
pub(crate) use block::{Block, Name};

use crate::compare::running::Never;

/// What a client says first.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const HEADER: usize = 9;
const LARGEST: usize = 16 << 10;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;

const HEADER_TABLE_SIZE: u16 = 1;
const ENABLE_PUSH: u16 = 2;
const INITIAL_WINDOW_SIZE: u16 = 4;

/// What is said and assumed unless a side says otherwise.
const USUAL_WINDOW: i64 = 65_535;
const USUAL_TABLE: u32 = 4096;
/// What the other side may send before it hears of more: nothing here ever waits for that.
const STREAM_WINDOW: u32 = 1 << 20;
const WINDOW: u32 = 1 << 30;
/// After so many bytes the other side hears of more.
const TOP_UP: u32 = 1 << 28;

/// What the other side said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// How it wants to be spoken to; requests may follow.
    Settings,
    /// Fields of a stream, and whether the first of them is the status 200.
    Head { stream: u32, ok: bool, ends: bool },
    /// Bytes of a stream: how many, and the first.
    Body { stream: u32, length: usize, first: Option<u8>, ends: bool },
}

/// One side of a connection.
pub(crate) struct Side {
    /// What came and was not looked at yet begins at `at`.
    held: Vec<u8>,
    at: usize,
    /// Whether the preface is still to come.
    wants_preface: bool,
    /// What is to be sent.
    pub(crate) out: Vec<u8>,
    window: i64,
    stream_window: i64,
    table: u32,
    taken: u32,
    form: Form,
}

impl Side {
    pub(crate) fn client() -> Self {
        let mut side = Self::new(false);
        side.out.extend_from_slice(PREFACE);
        side.greet();
        side
    }

    pub(crate) fn server() -> Self {
        let mut side = Self::new(true);
        side.greet();
        side
    }

    fn new(wants_preface: bool) -> Self {
        Self {
            held: Vec::new(),
            at: 0,
            wants_preface,
            out: Vec::new(),
            window: USUAL_WINDOW,
            stream_window: USUAL_WINDOW,
            table: USUAL_TABLE,
            taken: 0,
            form: Form::First,
        }
    }

    fn greet(&mut self) {
        let mut payload = Vec::new();
        for (setting, value) in [(ENABLE_PUSH, 0), (INITIAL_WINDOW_SIZE, STREAM_WINDOW)] {
            payload.extend_from_slice(&setting.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        self.frame(SETTINGS, 0, 0, &payload);
        self.frame(WINDOW_UPDATE, 0, 0, &WINDOW.to_be_bytes());
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = (payload.len() as u32).to_be_bytes();
        self.out.extend_from_slice(&length[1..]);
        self.out.extend_from_slice(&[kind, flags]);
        self.out.extend_from_slice(&stream.to_be_bytes());
        self.out.extend_from_slice(payload);
    }

    /// Says a whole request or answer: fields, a body that may be empty, and trailers if there are any. `false` if the
    /// other side has no room for the body now.
    pub(crate) fn say(&mut self, stream: u32, head: &Block, body: &[u8], trailers: Option<&Block>) -> bool {
        let length = body.len() as i64;
        if length > self.window.min(self.stream_window) {
            return false;
        }
        self.window -= length;
        let ends = |last: bool| if last { END_STREAM } else { 0 };
        let flags = END_HEADERS | ends(body.is_empty() && trailers.is_none());
        self.frame(HEADERS, flags, stream, head.bytes(self.form, true));
        if !body.is_empty() {
            self.frame(DATA, ends(trailers.is_none()), stream, body);
        }
        if let Some(trailers) = trailers {
            self.frame(HEADERS, END_HEADERS | END_STREAM, stream, trailers.bytes(self.form, false));
        }
        self.form = self.form.next();
        true
    }

    /// Takes bytes of the other side.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    /// The next thing that the other side said, if all of it is there. What needs no thought is answered.
    pub(crate) fn next(&mut self) -> anyhow::Result<Option<Event>> {
        if self.wants_preface && !self.skip_preface()? {
            return Ok(None);
        }
        loop {
            let rest = &self.held[self.at..];
            let Some((header, rest)) = rest.split_first_chunk::<HEADER>() else { break };
            let [a, b, c, kind, flags, stream @ ..] = *header;
            let length = u32::from_be_bytes([0, a, b, c]) as usize;
            if length > LARGEST {
                return Err(Never("it does not answer with HTTP/2").into());
            }
            if rest.len() < length {
                break;
            }
            let payload = self.at + HEADER..self.at + HEADER + length;
            self.at = payload.end;
            let stream = u32::from_be_bytes(stream) & (u32::MAX >> 1);
            if let Some(event) = self.take(kind, flags, stream, payload)? {
                return Ok(Some(event));
            }
        }
        // Nothing whole is left: what is held begins anew.
        self.held.drain(..self.at);
        self.at = 0;
        Ok(None)
    }

    fn skip_preface(&mut self) -> anyhow::Result<bool> {
        let length = self.held.len().min(PREFACE.len());
        ensure!(self.held[..length] == PREFACE[..length], "no HTTP/2");
        if length == PREFACE.len() {
            self.at = length;
            self.wants_preface = false;
        }
        Ok(!self.wants_preface)
    }

    fn take(
        &mut self,
        kind: u8,
        flags: u8,
        stream: u32,
        payload: std::ops::Range<usize>,
    ) -> anyhow::Result<Option<Event>> {
        let length = payload.len();
        let ends = flags & END_STREAM != 0;
        match kind {
            DATA => {
                self.taken += length as u32;
                if self.taken >= TOP_UP {
                    let taken = std::mem::take(&mut self.taken);
                    self.frame(WINDOW_UPDATE, 0, 0, &taken.to_be_bytes());
                }
                let body = without_padding(&self.held[payload], flags)?;
                return Ok(Some(Event::Body {
                    stream,
                    length: body.len(),
                    first: body.first().copied(),
                    ends,
                }));
            }
            HEADERS => {
                let fields = without_padding(&self.held[payload], flags)?;
                let skipped = if flags & PRIORITY == 0 { 0 } else { 5 };
                let ok = block::is_ok(fields.get(skipped..).unwrap_or_default());
                return Ok(Some(Event::Head { stream, ok, ends }));
            }
            SETTINGS if flags & ACK == 0 => {
                self.settings(payload)?;
                self.frame(SETTINGS, ACK, 0, &[]);
                return Ok(Some(Event::Settings));
            }
            PING if flags & ACK == 0 => {
                let said = self.held[payload].to_vec();
                self.frame(PING, ACK, 0, &said);
            }
            WINDOW_UPDATE if stream == 0 => {
                if let Ok(more) = <[u8; 4]>::try_from(&self.held[payload]) {
                    self.window += i64::from(u32::from_be_bytes(more));
                }
            }
            RST_STREAM => bail!("a stream was reset: {}", code(&self.held[payload])),
            GOAWAY => {
                bail!("the connection was ended: {}", code(self.held[payload].get(4..).unwrap_or_default()))
            }
            // What goes on with fields that were looked at, windows of streams, which are never used up, and the rest.
            _ => {}
        }
        Ok(None)
    }

    fn settings(&mut self, payload: std::ops::Range<usize>) -> anyhow::Result<()> {
        for setting in self.held[payload].chunks_exact(6) {
            let [a, b, value @ ..] = setting else { continue };
            let Ok(value) = <[u8; 4]>::try_from(value).map(u32::from_be_bytes) else { continue };
            match u16::from_be_bytes([*a, *b]) {
                HEADER_TABLE_SIZE => self.table = value,
                INITIAL_WINDOW_SIZE => self.stream_window = i64::from(value),
                _ => {}
            }
        }
        if self.table < USUAL_TABLE {
            ensure!(self.form != Form::Again, "the table of fields became smaller while it was in use");
            self.form = self.form.without_table();
        }
        Ok(())
    }
}

fn without_padding(payload: &[u8], flags: u8) -> anyhow::Result<&[u8]> {
    if flags & PADDED == 0 {
        return Ok(payload);
    }
    let inner = payload.split_first().and_then(|(padding, rest)| {
        let end = rest.len().checked_sub(usize::from(*padding))?;
        rest.get(..end)
    });
    match inner {
        Some(inner) => Ok(inner),
        None => bail!("a frame with more padding than it has bytes"),
    }
}

/// The name of an error in words that a specification has.
fn code(payload: &[u8]) -> String {
    let code = payload.first_chunk::<4>().map_or(0, |code| u32::from_be_bytes(*code));
    match code {
        0 => "no error".into(),
        1 => "protocol error".into(),
        3 => "flow control error".into(),
        7 => "refused".into(),
        8 => "cancelled".into(),
        9 => "compression error".into(),
        11 => "calm down".into(),
        code => format!("error {code}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(side: &mut Side, bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        // In two pieces, wherever they are cut.
        let middle = bytes.len() / 2;
        for piece in [&bytes[..middle], &bytes[middle..]] {
            side.feed(piece);
            while let Some(event) = side.next().unwrap() {
                events.push(event);
            }
        }
        events
    }

    fn fields() -> (Block, Block) {
        let head = Block::new(&[0x88], &[(Name::Known(31), "application/grpc")], 1);
        (head, Block::new(&[], &[(Name::Text("grpc-status"), "0")], 0))
    }

    #[test]
    fn a_request_and_its_answer_arrive() {
        let (mut client, mut server) = (Side::client(), Side::server());
        let (head, trailers) = fields();
        assert!(client.say(1, &head, b"hi", None));
        let sent = std::mem::take(&mut client.out);
        let events = heard(&mut server, &sent);
        assert_eq!(
            events,
            [
                Event::Settings,
                Event::Head { stream: 1, ok: true, ends: false },
                Event::Body { stream: 1, length: 2, first: Some(b'h'), ends: true }
            ]
        );
        assert!(server.say(1, &head, b"there", Some(&trailers)));
        let sent = std::mem::take(&mut server.out);
        let events = heard(&mut client, &sent);
        assert_eq!(events[1], Event::Head { stream: 1, ok: true, ends: false });
        assert_eq!(events[2], Event::Body { stream: 1, length: 5, first: Some(b't'), ends: false });
        assert_eq!(events[3], Event::Head { stream: 1, ok: false, ends: true });
    }

    #[test]
    fn the_window_of_the_connection_is_kept_until_it_grows() {
        let (mut side, (head, _)) = (Side::client(), fields());
        let body = vec![0; 30_000];
        assert!(side.say(1, &head, &body, None) && side.say(3, &head, &body, None));
        assert!(!side.say(5, &head, &body, None));
        heard(&mut side, &[0, 0, 4, WINDOW_UPDATE, 0, 0, 0, 0, 0, 0, 0, 0x80, 0]);
        assert!(side.say(5, &head, &body, None));
    }

    #[test]
    fn http_1_in_answer_is_not_waited_for() {
        let mut side = Side::client();
        side.feed(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        assert!(side.next().unwrap_err().is::<Never>());
    }

    #[test]
    fn pings_come_back_and_padding_does_not_count() {
        let mut side = Side::client();
        side.out.clear();
        heard(&mut side, &[0, 0, 8, PING, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(side.out, [0, 0, 8, PING, ACK, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        let padded = [0, 0, 4, DATA, PADDED | END_STREAM, 0, 0, 0, 1, 2, b'x', 0, 0];
        let body = Event::Body { stream: 1, length: 1, first: Some(b'x'), ends: true };
        assert_eq!(heard(&mut side, &padded), [body]);
    }
}
