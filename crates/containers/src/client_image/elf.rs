//! As much of an ELF file as says whom it is for: architecture, and the loader if it needs one.

/// What a program needs to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// As Rust names it.
    pub architecture: &'static str,
    /// Path of the loader; none for a static program.
    pub interpreter: Option<String>,
}

/// Reads the head of a 64-bit little-endian program. `read` gives bytes from an offset.
pub(super) fn parse(mut read: impl FnMut(u64, usize) -> Option<Vec<u8>>) -> Result<Header, &'static str> {
    const SHORT: &str = "it is cut short";
    let head = read(0, 64).ok_or("it is too short")?;
    if !head.starts_with(b"\x7fELF") {
        return Err("it is not an ELF file");
    }
    if head[4] != 2 || head[5] != 1 {
        return Err("it is not 64-bit little-endian");
    }
    let architecture = match half(&head, 18) {
        0x3e => "x86_64",
        0xb7 => "aarch64",
        0xf3 => "riscv64",
        0x15 => "powerpc64",
        _ => return Err("its architecture is not known"),
    };
    let table = word(&head, 32);
    let (size, count) = (half(&head, 54), half(&head, 56));
    if size < 56 {
        return Err(SHORT);
    }
    for index in 0..u64::from(count) {
        let entry = read(table.checked_add(index * u64::from(size)).ok_or(SHORT)?, 56).ok_or(SHORT)?;
        // PT_INTERP
        if entry[..4] == [3, 0, 0, 0] {
            let (offset, length) = (word(&entry, 8), word(&entry, 32));
            let length = usize::try_from(length).ok().filter(|length| *length < 4096).ok_or(SHORT)?;
            let mut path = read(offset, length).ok_or(SHORT)?;
            path.truncate(path.iter().position(|byte| *byte == 0).unwrap_or(path.len()));
            let interpreter = String::from_utf8(path).map_err(|_| "the path of its loader is not UTF-8")?;
            return Ok(Header { architecture, interpreter: Some(interpreter) });
        }
    }
    Ok(Header { architecture, interpreter: None })
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |word, byte| (word << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_bytes(bytes: &[u8]) -> Result<Header, &'static str> {
        parse(|offset, length| {
            let start = usize::try_from(offset).ok()?;
            Some(bytes.get(start..start.checked_add(length)?)?.to_vec())
        })
    }

    #[test]
    fn reads_the_running_test() {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        let header = parse_bytes(&bytes).unwrap();
        assert_eq!(header.architecture, std::env::consts::ARCH);
    }

    #[test]
    fn finds_the_loader() {
        let mut file = vec![0_u8; 200];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[18] = 0xb7;
        file[32] = 64;
        file[54] = 56;
        file[56] = 1;
        file[64] = 3;
        file[72] = 150;
        file[96] = 8;
        file[150..158].copy_from_slice(b"/lib/ld\0");
        let header = parse_bytes(&file).unwrap();
        assert_eq!(header, Header { architecture: "aarch64", interpreter: Some("/lib/ld".into()) });
    }

    #[test]
    fn refuses_rubbish() {
        assert!(parse_bytes(b"#!/bin/sh\n").is_err());
        assert!(parse_bytes(&[0; 64]).is_err());
        let mut cut = vec![0_u8; 64];
        cut[..6].copy_from_slice(b"\x7fELF\x02\x01");
        cut[18] = 0x3e;
        cut[32..40].fill(0xff);
        cut[54] = 56;
        cut[56] = 9;
        assert!(parse_bytes(&cut).is_err(), "a table beyond the end");
    }
}
