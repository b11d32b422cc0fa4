//! Watches the frames of a client go by and counts those that carry nothing: a few are needed, a flood of them keeps a
//! core busy for nobody. What the client is sent, and requests that are answered, earn it more.

use std::cell::{Cell, RefCell};

use crate::clock;

/// What a client may spend at once, and again each millisecond.
const BURST: i64 = 64 << 10;
const PER_MILLI: i64 = 6;
/// Pings, settings, priorities, windows, and frames that nobody knows. Less is written to answer one.
const CONTROL: i64 = 64;
/// A request taken back, or data without a byte.
const WASTE: i64 = 640;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// The 24 bytes before the first frame.
const PREFACE: u32 = 24;

pub(crate) struct Guard {
    left: Cell<i64>,
    refilled: Cell<u64>,
    frames: RefCell<Frames>,
    /// Since when a head has been coming; 0 if none is.
    block: Cell<u64>,
}

/// Where in the frames the bytes so far ended.
struct Frames {
    header: [u8; 9],
    have: usize,
    /// What is left of the payload.
    payload: u32,
    /// The frame ends a head.
    ends_block: bool,
}

impl Default for Guard {
    fn default() -> Self {
        let frames = Frames { header: [0; 9], have: 0, payload: PREFACE, ends_block: false };
        Self {
            left: Cell::new(BURST),
            refilled: Cell::new(clock::woken()),
            frames: RefCell::new(frames),
            block: Cell::new(0),
        }
    }
}

impl Guard {
    /// Whether the client has spent more than it may.
    pub(crate) fn is_flooded(&self) -> bool {
        self.left.get() < 0
    }

    /// Since when a head has been coming that is not complete.
    pub(crate) fn head_since(&self) -> Option<u64> {
        Some(self.block.get()).filter(|since| *since > 0)
    }

    /// The client was sent bytes.
    pub(crate) fn sent(&self, count: usize) {
        self.earn(count as i64);
    }

    /// A request of the client was answered in full.
    pub(crate) fn answered(&self) {
        self.earn(WASTE);
    }

    fn earn(&self, amount: i64) {
        // Who was a flood once does not get better.
        if !self.is_flooded() {
            self.left.set((self.left.get() + amount).min(BURST));
        }
    }

    fn spend(&self, amount: i64) {
        let now = clock::woken();
        let since = now.saturating_sub(self.refilled.replace(now));
        self.earn((since as i64).saturating_mul(PER_MILLI));
        self.left.set(self.left.get() - amount);
    }

    /// Takes the next bytes of the client.
    pub(crate) fn observe(&self, mut bytes: &[u8]) {
        let mut frames = self.frames.borrow_mut();
        while !bytes.is_empty() {
            if frames.payload > 0 {
                let count = bytes.len().min(frames.payload as usize);
                frames.payload -= count as u32;
                bytes = &bytes[count..];
            } else {
                let count = bytes.len().min(9 - frames.have);
                let (have, taken) = (frames.have, &bytes[..count]);
                frames.header[have..have + count].copy_from_slice(taken);
                frames.have += count;
                bytes = &bytes[count..];
                if frames.have < 9 {
                    return;
                }
                self.begin(&mut frames);
            }
            if frames.payload == 0 && std::mem::take(&mut frames.ends_block) {
                self.block.set(0);
            }
        }
    }

    /// The header of a frame is complete.
    fn begin(&self, frames: &mut Frames) {
        frames.have = 0;
        let [a, b, c, kind, flags, ..] = frames.header;
        frames.payload = u32::from_be_bytes([0, a, b, c]);
        match kind {
            HEADERS | CONTINUATION => {
                if self.block.get() == 0 {
                    self.block.set(clock::woken().max(1));
                }
                frames.ends_block = flags & END_HEADERS != 0;
                if kind == CONTINUATION {
                    self.spend(CONTROL);
                }
            }
            DATA if frames.payload == 0 && flags & END_STREAM == 0 => self.spend(WASTE),
            DATA => {}
            RST_STREAM => self.spend(WASTE),
            _ => self.spend(CONTROL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = (payload.len() as u32).to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
    }

    fn fed(frames: &[Vec<u8>], piece: usize) -> Guard {
        let guard = Guard::default();
        guard.observe(&[0; PREFACE as usize]);
        for bytes in frames.concat().chunks(piece) {
            guard.observe(bytes);
        }
        guard
    }

    #[test]
    fn useful_frames_cost_nothing_in_pieces_of_any_size() {
        let frames = [frame(HEADERS, END_HEADERS, &[1; 100]), frame(DATA, 0, &[2; 300]), frame(DATA, 1, b"")];
        for piece in [1, 8, 9, 10, 500] {
            let guard = fed(&vec![frames.concat(); 500], piece);
            assert_eq!(guard.left.get(), BURST, "pieces of {piece}");
            assert_eq!(guard.head_since(), None);
        }
    }

    #[test]
    fn floods_of_every_kind_are_told_and_a_few_are_not() {
        for (kind, flags, some, many) in [
            (6, 0, 900, 1100),
            (4, 0, 900, 1100),
            (2, 0, 900, 1100),
            (RST_STREAM, 0, 90, 110),
            (DATA, 0, 90, 110),
            (99, 0, 900, 1100),
        ] {
            let payload: &[u8] = if kind == DATA { b"" } else { &[0; 8] };
            let frames = vec![frame(kind, flags, payload); many];
            assert!(!fed(&frames[..some], 4096).is_flooded(), "{some} of {kind}");
            let guard = fed(&frames, 4096);
            guard.answered();
            assert!(guard.is_flooded(), "{many} of {kind}");
        }
    }

    #[test]
    fn requests_taken_back_are_paid_for_by_answered_ones() {
        let guard = Guard::default();
        guard.observe(&[0; PREFACE as usize]);
        for _ in 0..1000 {
            guard.observe(&frame(RST_STREAM, 0, &[0; 4]));
            guard.answered();
        }
        assert!(!guard.is_flooded());
    }

    #[test]
    fn a_head_is_on_its_way_until_its_last_byte() {
        clock::wake();
        let first = frame(HEADERS, 0, &[1; 10]);
        let last = frame(CONTINUATION, END_HEADERS, &[1; 10]);
        let guard = fed(&[first, last[..18].to_vec()], 7);
        assert!(guard.head_since().is_some());
        guard.observe(&last[18..]);
        assert_eq!(guard.head_since(), None);
    }
}
