//! The fuzz targets without a fuzzer: seeds, bent by a random generator with a fixed beginning, for a bounded time
//! each (`CAUSEWAY_FUZZ_SECONDS`, 10 by default). Blind to coverage, but it runs wherever the tests do.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

#[path = "../../fuzz/bodies/client_hello.rs"]
mod client_hello;
#[path = "../../fuzz/bodies/proxy_protocol.rs"]
mod proxy_protocol;

use std::path::Path;
use std::time::{Duration, Instant};

/// xorshift: the same every time, so that a failure comes again.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides.max(1) as u64) as usize
    }
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let mut paths: Vec<_> = directory.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// One to four small changes: bits, bytes, lengths, cuts, repeats, a piece of another seed.
fn bend(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], dice: &mut Dice) {
    const ODD: [u8; 6] = [0, 1, 0x7f, 0x80, 0xfe, 0xff];
    for _ in 0..=dice.roll(4) {
        let (at, length) = (dice.roll(bytes.len()), bytes.len());
        match dice.roll(7) {
            _ if length == 0 => bytes.extend_from_slice(&seeds[dice.roll(seeds.len())]),
            0 => bytes[at] ^= 1 << dice.roll(8),
            1 => bytes[at] = dice.roll(256) as u8,
            2 => bytes[at] = ODD[dice.roll(ODD.len())],
            3 => bytes.truncate(at),
            4 => drop(bytes.drain(at..(at + 1 + dice.roll(8)).min(length))),
            5 => {
                let piece = bytes[at..(at + 1 + dice.roll(32)).min(length)].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => {
                let other = &seeds[dice.roll(seeds.len())];
                let from = dice.roll(other.len());
                let piece = other[from..(from + dice.roll(64)).min(other.len())].to_vec();
                bytes.splice(at..(at + piece.len()).min(length), piece);
            }
        }
    }
    bytes.truncate(4096);
}

fn drive(target: &str, run: fn(&[u8])) {
    let seconds = std::env::var("CAUSEWAY_FUZZ_SECONDS").map_or(10, |text| text.parse().unwrap());
    let seeds = seeds(target);
    for seed in &seeds {
        run(seed);
    }
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let mut count = 0u64;
    while count == 0 || Instant::now() < deadline {
        let mut bytes = seeds[dice.roll(seeds.len())].clone();
        bend(&mut bytes, &seeds, &mut dice);
        if let Err(panic) = std::panic::catch_unwind(|| run(&bytes)) {
            eprintln!("{target}, input {count}: {bytes:02x?}");
            std::panic::resume_unwind(panic);
        }
        count += 1;
    }
    println!("{target}: {count} inputs");
}

#[test]
fn bent_hellos_are_read_as_rustls_reads_them() {
    drive("client_hello", client_hello::run);
}

#[test]
fn bent_proxy_headers_never_surprise() {
    drive("proxy_protocol", proxy_protocol::run);
}
