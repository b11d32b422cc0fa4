//! The frame of a record, and the mark behind it. Sans-IO.
//!
//! ```text
//! record: magic u32 | length u32 | checksum 8 bytes | payload          (little endian)
//! mark:   magic u64 | its own place in the file u64
//! ```
//!
//! A mark follows each record. It is written when the record is on the disk, and before anybody is told so: a record
//! that can't be read and has no mark behind it was never acknowledged.

use std::ops::Range;

use aws_lc_rs::digest::{SHA256, digest};

use crate::Form;

const HEAD: usize = 16;
/// No text holds it: the first bytes are not UTF-8.
const MARK: [u8; 8] = [0xff, 0xfe, b'd', b'o', b'n', b'e', 0xfe, 0xff];
pub(crate) const MARK_LENGTH: usize = 16;

/// Puts a record in the place of what `record` held; `payload` writes behind what is there.
pub(crate) fn encode(record: &mut Vec<u8>, form: &Form, payload: impl FnOnce(&mut Vec<u8>)) {
    record.clear();
    record.resize(HEAD, 0);
    payload(record);
    let length = (record.len() - HEAD) as u32;
    let checksum = checksum(&record[HEAD..]);
    record[..4].copy_from_slice(&form.magic);
    record[4..8].copy_from_slice(&length.to_le_bytes());
    record[8..HEAD].copy_from_slice(&checksum);
}

fn checksum(payload: &[u8]) -> [u8; 8] {
    let mut sum = [0; 8];
    sum.copy_from_slice(&digest(&SHA256, payload).as_ref()[..8]);
    sum
}

/// The mark that says that all before `place` of the file is on the disk.
pub(crate) fn mark(place: u64) -> [u8; MARK_LENGTH] {
    let mut mark = [0; MARK_LENGTH];
    mark[..8].copy_from_slice(&MARK);
    mark[8..].copy_from_slice(&place.to_le_bytes());
    mark
}

fn is_marked(file: &[u8], place: usize) -> bool {
    file.get(place..place + MARK_LENGTH) == Some(&mark(place as u64)[..])
}

/// What a file says: the whole records at its beginning.
pub(crate) struct Scan {
    /// Where their payloads are.
    pub(crate) payloads: Vec<Range<usize>>,
    /// Where they end, with their marks.
    pub(crate) end: usize,
    /// Bytes of a write after them that was cut short.
    pub(crate) cut: usize,
}

impl Scan {
    /// Reads a file behind its header up to its end, or up to a record that a crash cut short before it was acknowledged.
    ///
    /// # Errors
    /// The place of a record that can't be read but was acknowledged, which a mark or a whole record behind it tells.
    pub(crate) fn read(file: &[u8], form: &Form) -> Result<Self, usize> {
        let mut scan = Self { payloads: Vec::new(), end: form.header.len(), cut: 0 };
        while let Some(length) = payload_length(&file[scan.end..], form) {
            let begin = scan.end + HEAD;
            scan.end = begin + length;
            scan.payloads.push(begin..scan.end);
            // A mark that a power failure took, with the record after it on the disk, is not missed.
            let after = file.get(scan.end + MARK_LENGTH..).unwrap_or_default();
            if is_marked(file, scan.end) || payload_length(after, form).is_some() {
                scan.end += MARK_LENGTH;
            }
        }
        // Mostly this is space that was filled ahead: megabytes of nothing.
        let used = file.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let mut later = scan.end + 1..used;
        if later.any(|place| is_marked(file, place) || payload_length(&file[place..], form).is_some()) {
            return Err(scan.end);
        }
        scan.cut = used.saturating_sub(scan.end);
        Ok(scan)
    }
}

/// How long the payload of the record at the beginning of `bytes` is, if it is whole.
fn payload_length(bytes: &[u8], form: &Form) -> Option<usize> {
    let (magic, rest) = bytes.split_first_chunk::<4>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<8>()?;
    if *magic != form.magic {
        return None;
    }
    let length = u32::from_le_bytes(*length) as usize;
    (checksum(rest.get(..length)?) == *sum).then_some(length)
}
