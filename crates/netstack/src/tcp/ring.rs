//! Bytes of a stream, from the oldest that somebody still needs. The memory grows as it is needed, is taken from the
//! budget of all flows, and goes when a flow is at rest.

use std::ops::Range;

use super::memory::Memory;

/// What every flow may have: with it the slowest still goes on.
const LEAST: usize = 4 << 10;
/// The smallest piece of memory; most flows that are kept open for long say little.
const SMALLEST: usize = 256;

/// A queue of bytes that can be written ahead of its end.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    /// As long as a power of two, or empty.
    bytes: Vec<u8>,
    head: usize,
    length: usize,
    /// How much of the memory is in the account.
    counted: usize,
}

impl Ring {
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Makes room for so many bytes from the front on; false if there is no memory for them.
    pub(crate) fn reserve(&mut self, total: usize, memory: &mut Memory) -> bool {
        let old = self.bytes.len();
        if total <= old {
            return true;
        }
        let new = total.next_power_of_two().max(SMALLEST);
        if memory.grow_by(new - self.counted) {
            self.counted = new;
        } else if new > LEAST {
            return false;
        }
        let mut bytes = vec![0; new];
        // All of the old memory, since bytes may be ahead of the end.
        let front = old - self.head;
        if old > 0 {
            bytes[..front].copy_from_slice(&self.bytes[self.head..]);
            bytes[front..old].copy_from_slice(&self.bytes[..self.head]);
        }
        (self.bytes, self.head) = (bytes, 0);
        true
    }

    /// Appends as much as there is memory for; how much that was.
    pub(crate) fn push(&mut self, piece: &[u8], memory: &mut Memory) -> usize {
        let mut wanted = self.length + piece.len();
        while !self.reserve(wanted, memory) && wanted > LEAST {
            wanted = wanted.next_power_of_two() / 2;
        }
        let room = piece.len().min(self.bytes.len() - self.length);
        self.put(self.length, &piece[..room]);
        self.length += room;
        room
    }

    /// Writes at a place counted from the front, for which there is room.
    pub(crate) fn put(&mut self, at: usize, piece: &[u8]) {
        let (first, second) = self.places(at, piece.len());
        let split = first.len();
        self.bytes[first].copy_from_slice(&piece[..split]);
        self.bytes[second].copy_from_slice(&piece[split..]);
    }

    /// So many bytes that were put behind the end belong to the queue from here on.
    pub(crate) fn extend(&mut self, count: usize) {
        self.length += count;
    }

    /// Reads from a place counted from the front.
    pub(crate) fn copy(&self, at: usize, piece: &mut [u8]) {
        let (first, second) = self.places(at, piece.len());
        let (front, back) = piece.split_at_mut(first.len());
        front.copy_from_slice(&self.bytes[first]);
        back.copy_from_slice(&self.bytes[second]);
    }

    /// The oldest bytes that lie in one piece.
    pub(crate) fn front(&self) -> &[u8] {
        let (first, _) = self.places(0, self.length);
        &self.bytes[first]
    }

    /// Forgets the oldest bytes.
    pub(crate) fn consume(&mut self, count: usize) {
        self.length -= count;
        self.head = self.place(count);
    }

    /// Gives the memory back; only without bytes, also ahead of the end.
    pub(crate) fn release(&mut self, memory: &mut Memory) {
        memory.shrink_by(self.counted);
        *self = Self::default();
    }

    pub(crate) fn has_memory(&self) -> bool {
        !self.bytes.is_empty()
    }

    fn place(&self, at: usize) -> usize {
        if self.bytes.is_empty() { 0 } else { (self.head + at) & (self.bytes.len() - 1) }
    }

    /// Where a piece lies: up to the end of the memory, and from its beginning on.
    fn places(&self, at: usize, length: usize) -> (Range<usize>, Range<usize>) {
        let start = self.place(at);
        let first = length.min(self.bytes.len() - start);
        (start..start + first, 0..length - first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::memory::memory;

    #[test]
    fn bytes_stay_in_order_around_the_end_of_the_memory() {
        let (mut ring, mut memory) = (Ring::default(), memory(1 << 20));
        let (mut written, mut read) = (0_u32, 0_u32);
        for round in 0..2000_u32 {
            let piece: Vec<u8> = (written..written + round % 97).map(|n| n as u8).collect();
            assert_eq!(ring.push(&piece, &mut memory), piece.len());
            written += piece.len() as u32;
            let mut out = vec![0; ring.len() / 2];
            ring.copy(0, &mut out);
            assert!(out.iter().zip(read..).all(|(byte, n)| *byte == n as u8));
            ring.consume(out.len());
            read += out.len() as u32;
        }
        assert_eq!(ring.front()[0], read as u8);
    }

    #[test]
    fn what_is_put_ahead_survives_growth() {
        let (mut ring, mut memory) = (Ring::default(), memory(1 << 20));
        ring.push(&[1; 3000], &mut memory);
        ring.consume(3000);
        assert!(ring.reserve(2000, &mut memory));
        ring.put(1000, &[7; 1000]);
        assert!(ring.reserve(9000, &mut memory));
        ring.push(&[5; 1000], &mut memory);
        ring.extend(1000);
        let mut out = [0; 2000];
        ring.copy(0, &mut out);
        assert!(out[..1000].iter().all(|byte| *byte == 5) && out[1000..].iter().all(|byte| *byte == 7));
    }

    #[test]
    fn memory_is_bounded_but_never_nothing() {
        let mut memory = memory(64 << 10);
        let (mut one, mut two) = (Ring::default(), Ring::default());
        let taken = one.push(&vec![0; 100 << 10], &mut memory);
        assert!(taken <= 64 << 10, "{taken}");
        assert_eq!(two.push(&vec![0; 100 << 10], &mut memory), LEAST);
        one.consume(taken);
        one.release(&mut memory);
        assert!(!one.has_memory());
        assert_eq!(two.push(&[0; 10 << 10], &mut memory), 10 << 10, "what was given back is there again");
        two.consume(two.len());
        two.release(&mut memory);
        assert!(memory.grow_by(64 << 10));
    }
}
