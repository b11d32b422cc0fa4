//! Fuzz targets without a fuzzer: seeds, bent by chance that can be repeated, for a bounded time each. Blind to coverage, but it
//! runs wherever the tests do.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::Dice;

/// What a message of any protocol here is shorter than.
const LONGEST: usize = 4096;
const SEED: u64 = 0x9E37_79B9_7F4A_7C15;

/// Gives every seed to `run`, and then bent ones for `CAUSEWAY_FUZZ_SECONDS` (10 by default).
///
/// # Panics
/// If `run` does; what it was given is printed.
pub fn drive(target: &str, seeds: &[Vec<u8>], run: impl Fn(&[u8])) {
    let seconds = std::env::var("CAUSEWAY_FUZZ_SECONDS").map_or(10, |text| text.parse().unwrap());
    for seed in seeds {
        run(seed);
    }
    let mut dice = Dice::new(SEED);
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let mut count = 0u64;
    while count == 0 || Instant::now() < deadline {
        let mut bytes = seeds[roll(&mut dice, seeds.len())].clone();
        bend(&mut bytes, seeds, &mut dice);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(&bytes))) {
            eprintln!("{target}, input {count}: {bytes:02x?}");
            resume_unwind(panic);
        }
        count += 1;
    }
    println!("{target}: {count} inputs");
}

/// The seeds of a target that a crate's `fuzz` directory has, in the order of their names.
///
/// # Panics
/// When there are none.
pub fn seeds(fuzz: &str, target: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(fuzz).join("seeds").join(target);
    let mut paths: Vec<_> = directory.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// One to four small changes: bits, bytes, lengths, cuts, repeats, a piece of another seed.
fn bend(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], dice: &mut Dice) {
    const ODD: [u8; 6] = [0, 1, 0x7f, 0x80, 0xfe, 0xff];
    for _ in 0..=roll(dice, 4) {
        let (at, length) = (roll(dice, bytes.len()), bytes.len());
        match roll(dice, 7) {
            _ if length == 0 => bytes.extend_from_slice(&seeds[roll(dice, seeds.len())]),
            0 => bytes[at] ^= 1 << roll(dice, 8),
            1 => bytes[at] = roll(dice, 256) as u8,
            2 => bytes[at] = ODD[roll(dice, ODD.len())],
            3 => bytes.truncate(at),
            4 => drop(bytes.drain(at..(at + 1 + roll(dice, 8)).min(length))),
            5 => {
                let piece = bytes[at..(at + 1 + roll(dice, 32)).min(length)].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => {
                let other = &seeds[roll(dice, seeds.len())];
                let from = roll(dice, other.len());
                let piece = other[from..(from + roll(dice, 64)).min(other.len())].to_vec();
                bytes.splice(at..(at + piece.len()).min(length), piece);
            }
        }
    }
    bytes.truncate(LONGEST);
}

fn roll(dice: &mut Dice, sides: usize) -> usize {
    dice.below(sides as u64) as usize
}
