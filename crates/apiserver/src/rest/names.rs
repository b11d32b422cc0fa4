//! Names the server makes up: generated name suffixes and uids.

use aws_lc_rs::rand::fill;

/// Letters and digits that can't spell a word.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX: usize = 5;
const LONGEST_BASE: usize = 63 - SUFFIX;

/// A name from a `generateName` prefix.
pub(super) fn generate(prefix: &str) -> String {
    let mut end = prefix.len().min(LONGEST_BASE);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = prefix[..end].to_owned();
    let random: [u8; SUFFIX] = random();
    name.extend(random.iter().map(|b| char::from(ALPHABET[*b as usize % ALPHABET.len()])));
    name
}

/// A random (version 4) UUID.
pub(crate) fn uid() -> String {
    let mut b: [u8; 16] = random();
    b[6] = (b[6] & 0x0f) | 0x40;
    b[8] = (b[8] & 0x3f) | 0x80;
    let hex = format!("{:032x}", u128::from_be_bytes(b));
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    fill(&mut bytes).expect("the system's random source works");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_keep_their_prefix_and_fit_a_label() {
        assert!(generate("web-").starts_with("web-"));
        assert_eq!(generate("web-").len(), 9);
        assert_eq!(generate(&"x".repeat(100)).len(), 63);
        assert_ne!(generate("a"), generate("a"));
    }

    #[test]
    fn uids_are_version_four() {
        let uid = uid();
        assert_eq!((uid.len(), &uid[14..15]), (36, "4"));
    }
}
