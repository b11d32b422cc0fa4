//! Datagrams on their way out: those to one place go together, as the kernel takes them in one call if all but the last
//! are equally long.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// The most that one call takes.
const LONGEST: usize = 65_000;
/// Bytes that wait; beyond it nothing more is made.
const WAITING: usize = 1 << 20;
/// How far back a train is looked for that goes to the same place.
const LOOK_BACK: usize = 16;
/// Buffers that are kept for later.
const SPARE: usize = 16;

/// Where something goes, and from which of this machine's addresses, if that matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub address: SocketAddr,
    pub local: Option<IpAddr>,
}

/// Datagrams to one place.
#[derive(Debug)]
pub(super) struct Train {
    pub to: Endpoint,
    pub bytes: Vec<u8>,
    /// How long each is, but for the last.
    pub size: usize,
    count: usize,
    is_full: bool,
}

/// All that waits to be sent.
#[derive(Debug)]
pub(super) struct Trains {
    waiting: VecDeque<Train>,
    bytes: usize,
    spare: Vec<Vec<u8>>,
    /// How many datagrams one call takes.
    pub most: usize,
}

impl Trains {
    pub(super) fn new(most: usize) -> Self {
        Self { waiting: VecDeque::new(), bytes: 0, spare: Vec::new(), most }
    }

    pub(super) fn has_room(&self) -> bool {
        self.bytes < WAITING
    }

    pub(super) fn push(&mut self, to: Endpoint, datagram: &[u8]) {
        self.bytes += datagram.len();
        let most = self.most;
        let found = self.waiting.iter_mut().rev().take(LOOK_BACK).find(|train| train.to == to);
        if let Some(train) = found.filter(|train| train.takes(datagram.len(), most)) {
            train.bytes.extend_from_slice(datagram);
            train.count += 1;
            train.is_full = datagram.len() < train.size;
            return;
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.extend_from_slice(datagram);
        self.waiting.push_back(Train { to, bytes, size: datagram.len(), count: 1, is_full: false });
    }

    pub(super) fn first(&self) -> Option<&Train> {
        self.waiting.front()
    }

    /// The first is sent, or lost.
    pub(super) fn done(&mut self) {
        if let Some(Train { mut bytes, .. }) = self.waiting.pop_front() {
            self.bytes -= bytes.len();
            if self.spare.len() < SPARE {
                bytes.clear();
                self.spare.push(bytes);
            }
        }
    }

    /// The address that the first is sent from can't be used any more.
    pub(super) fn forget_local(&mut self) {
        if let Some(first) = self.waiting.front_mut() {
            first.to.local = None;
        }
    }
}

impl Train {
    fn takes(&self, length: usize, most: usize) -> bool {
        !self.is_full && length <= self.size && self.count < most && self.bytes.len() + length <= LONGEST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(port: u16) -> Endpoint {
        Endpoint { address: ([127, 0, 0, 1], port).into(), local: None }
    }

    fn shape(trains: &mut Trains) -> Vec<(u16, Vec<usize>)> {
        std::iter::from_fn(|| {
            let train = trains.first()?;
            let sizes = train.bytes.chunks(train.size).map(<[u8]>::len).collect();
            let shape = (train.to.address.port(), sizes);
            trains.done();
            Some(shape)
        })
        .collect()
    }

    #[test]
    fn equal_ones_go_together_and_a_shorter_one_ends_it() {
        let mut trains = Trains::new(4);
        for (port, length) in [(1, 100), (1, 100), (2, 50), (1, 100), (1, 30), (1, 30), (2, 60), (2, 60)] {
            trains.push(to(port), &vec![0; length]);
        }
        assert_eq!(
            shape(&mut trains),
            [(1, vec![100, 100, 100, 30]), (2, vec![50]), (1, vec![30]), (2, vec![60, 60])]
        );
        assert_eq!(trains.bytes, 0);
    }

    #[test]
    fn no_train_is_longer_than_the_kernel_takes() {
        let mut trains = Trains::new(64);
        for _ in 0..100 {
            trains.push(to(1), &[0; 1452]);
        }
        assert!(shape(&mut trains).iter().all(|(_, sizes)| sizes.iter().sum::<usize>() <= LONGEST));
        let mut trains = Trains::new(1);
        trains.push(to(1), &[0; 10]);
        trains.push(to(1), &[0; 10]);
        assert_eq!(shape(&mut trains).len(), 2);
    }
}
