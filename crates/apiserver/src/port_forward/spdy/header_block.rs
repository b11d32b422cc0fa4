//! The headers in SPDY's frames: names and values, compressed by zlib with a dictionary that both ends know. One stream of
//! compression runs through all frames of a direction.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_HAS_MORE_INPUT;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

use crate::port_forward::Violation;

/// How far back compressed data can refer.
const WINDOW: usize = 32 * 1024;
/// Of one frame, unpacked.
const MOST: usize = 16 * 1024;

/// The dictionary begins with these, each after its length.
const WORDS: [&str; 65] = [
    "options",
    "head",
    "post",
    "put",
    "delete",
    "trace",
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "connection",
    "content-base",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-md5",
    "content-range",
    "content-type",
    "date",
    "etag",
    "expect",
    "expires",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "referer",
    "retry-after",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "method",
    "get",
    "status",
    "200 OK",
    "version",
    "HTTP/1.1",
    "url",
    "public",
    "set-cookie",
    "keep-alive",
    "origin",
];
/// And ends with this.
const TAIL: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505\
203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden\
404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable\
Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT\
chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,\
publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";
/// What a stream that begins with the dictionary begins with: deflate with a window of 32 KiB, a dictionary, and its checksum.
const PREAMBLE: [u8; 2] = [0x78, 0xbb];
const CHECKSUM: u32 = 0xe3c6_a7c2;

fn dictionary() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1423);
    for word in WORDS {
        bytes.put_u32(word.len() as u32);
        bytes.put_slice(word.as_bytes());
    }
    bytes.put_slice(TAIL.as_bytes());
    bytes
}

/// The headers of a stream, in the order in which they came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::port_forward) struct Headers(Vec<(String, String)>);

impl Headers {
    /// A header's value, empty when it is not there; names are in lower case.
    pub(in crate::port_forward) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    fn parse(mut block: &[u8]) -> Result<Self, Violation> {
        let short = Violation("a block of headers ends early");
        let count = block.try_get_u32().map_err(|_| short)?;
        let mut headers = Vec::new();
        for _ in 0..count {
            let (name, value) = (text(&mut block).ok_or(short)?, text(&mut block).ok_or(short)?);
            headers.push((name.to_ascii_lowercase(), value));
        }
        Ok(Self(headers))
    }
}

fn text(block: &mut &[u8]) -> Option<String> {
    let length = block.try_get_u32().ok()?;
    let (bytes, rest) = block.split_at_checked(usize::try_from(length).ok()?)?;
    *block = rest;
    Some(String::from_utf8_lossy(bytes).into_owned())
}

/// Unpacks the headers of the frames of one direction.
#[derive(Default)]
pub(super) struct Decompressor {
    /// There from the first frame on.
    begun: Option<Box<Inflater>>,
}

struct Inflater {
    core: DecompressorOxide,
    window: Vec<u8>,
    /// Where the window goes on.
    position: usize,
}

impl Decompressor {
    /// The headers of the next frame.
    ///
    /// # Errors
    /// When they can't be unpacked, or are too many. Those of later frames can't be read then.
    pub(super) fn read(&mut self, packed: &Bytes) -> Result<Headers, Violation> {
        let mut packed = packed.clone();
        if self.begun.is_none() {
            preamble(&mut packed)?;
        }
        let inflater = self.begun.get_or_insert_with(|| Box::new(Inflater::new()));
        Headers::parse(&inflater.unpack(&packed)?)
    }
}

/// What zlib says before anything else.
fn preamble(packed: &mut Bytes) -> Result<(), Violation> {
    let (Ok(head), Ok(checksum)) = (packed.try_get_u16(), packed.try_get_u32()) else {
        return Err(Violation("headers begin without the beginning of zlib"));
    };
    let is_deflate = head & 0x0f00 == 0x0800 && head % 31 == 0;
    if !is_deflate || head & 0x0020 == 0 || checksum != CHECKSUM {
        return Err(Violation("headers are not packed with SPDY's dictionary"));
    }
    Ok(())
}

impl Inflater {
    fn new() -> Self {
        let mut window = dictionary();
        let position = window.len();
        window.resize(WINDOW, 0);
        Self { core: DecompressorOxide::new(), window, position }
    }

    fn unpack(&mut self, mut packed: &[u8]) -> Result<Vec<u8>, Violation> {
        let mut unpacked = Vec::new();
        loop {
            let (status, read, written) = decompress(
                &mut self.core,
                packed,
                &mut self.window,
                self.position,
                TINFL_FLAG_HAS_MORE_INPUT,
            );
            let end = self.position + written;
            unpacked.extend_from_slice(self.window.get(self.position..end).unwrap_or_default());
            self.position = end % WINDOW;
            packed = packed.get(read..).unwrap_or_default();
            if unpacked.len() > MOST {
                return Err(Violation("a stream has too many headers"));
            }
            match status {
                TINFLStatus::NeedsMoreInput => return Ok(unpacked),
                TINFLStatus::HasMoreOutput => {}
                // Also its proper end: the stream lasts as long as the session.
                _ => return Err(Violation("headers can't be unpacked")),
            }
        }
    }
}

/// Packs the headers of the frames of one direction: as they are, since there is nothing in them to be made smaller.
#[derive(Default)]
pub(in crate::port_forward) struct Compressor {
    begun: bool,
}

impl Compressor {
    /// No headers, as the next frame carries them.
    pub(in crate::port_forward) fn empty(&mut self) -> Bytes {
        let mut block = BytesMut::new();
        if !std::mem::replace(&mut self.begun, true) {
            block.put_slice(&PREAMBLE);
            block.put_u32(CHECKSUM);
        }
        // A block that is stored: the number of headers.
        block.put_slice(&[0, 4, 0, 0xfb, 0xff, 0, 0, 0, 0]);
        // And an empty one, after which readers hand out what they have without waiting for more.
        block.put_slice(&[0, 0, 0, 0xff, 0xff]);
        block.freeze()
    }
}

#[cfg(test)]
mod tests;
