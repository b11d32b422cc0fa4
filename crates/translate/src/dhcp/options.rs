//! Options as text, each in the form that its number asks for (RFC 2132 and those that follow it).

use causeway_api::{DhcpOption, OptionType};
use causeway_ir::Name;
use causeway_ir::dhcp::{ClientId, OptionValue};

/// The option's value, or what to write.
pub(super) fn value(option: &DhcpOption) -> Result<OptionValue, String> {
    let text = option.value.trim();
    let kind = option.kind.or_else(|| usual(option.code));
    let Some(kind) = kind else {
        let is_bytes = text.starts_with("0x");
        return if is_bytes { bytes(text) } else { Ok(OptionValue::Text(option.value.clone())) };
    };
    let list = || text.split(',').map(str::trim);
    let wrong = |what: &str| format!("`{text}` is not what option {} takes: write {what}", option.code);
    match kind {
        OptionType::Addresses => {
            let addresses = list().map(str::parse).collect::<Result<_, _>>();
            addresses
                .map(OptionValue::Addresses)
                .map_err(|_| wrong("IPv4 addresses with commas between them"))
        }
        OptionType::Text => Ok(OptionValue::Text(option.value.clone())),
        OptionType::Domains => {
            let names = list().map(Name::parse).collect::<Result<_, _>>();
            names.map(OptionValue::Domains).map_err(|_| wrong("domains with commas between them"))
        }
        OptionType::Uint8 => {
            text.parse().map(OptionValue::Uint8).map_err(|_| wrong("a number from 0 to 255"))
        }
        OptionType::Uint16 => {
            text.parse().map(OptionValue::Uint16).map_err(|_| wrong("a number from 0 to 65535"))
        }
        OptionType::Uint32 => {
            text.parse().map(OptionValue::Uint32).map_err(|_| wrong("a number from 0 to 4294967295"))
        }
        OptionType::Bytes => bytes(text),
    }
}

/// `0x01ff` or `01:ff`.
fn bytes(text: &str) -> Result<OptionValue, String> {
    let wrong = || format!("`{text}` is not bytes: write them as 0x01ff or 01:ff");
    let Some(digits) = text.strip_prefix("0x") else {
        return ClientId::parse(text).map(OptionValue::Bytes).map_err(|_| wrong());
    };
    let is_even = !digits.is_empty() && digits.len() % 2 == 0 && digits.is_ascii();
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).ok();
    let parsed: Option<Vec<u8>> =
        if is_even { (0..digits.len()).step_by(2).map(byte).collect() } else { None };
    parsed.map(|bytes| OptionValue::Bytes(ClientId(bytes))).ok_or_else(wrong)
}

/// What an option of this number is; none for one that is not usual.
fn usual(code: u8) -> Option<OptionType> {
    Some(match code {
        1 | 3..=11 | 16 | 28 | 32 | 33 | 41 | 42 | 44 | 45 | 48 | 49 | 65 | 68..=76 | 118 | 150 => {
            OptionType::Addresses
        }
        12 | 14 | 15 | 17 | 18 | 40 | 47 | 62 | 64 | 66 | 67 | 86 | 87 | 100 | 101 | 114 | 209 | 210
        | 252 => OptionType::Text,
        119 => OptionType::Domains,
        19 | 20 | 23 | 27 | 29 | 30 | 31 | 34 | 36 | 37 | 39 | 46 | 116 => OptionType::Uint8,
        13 | 22 | 26 => OptionType::Uint16,
        2 | 24 | 35 | 38 | 51 | 58 | 59 | 108 | 211 => OptionType::Uint32,
        43 | 60 | 77 | 120 | 121 | 124 | 125 | 212 | 249 => OptionType::Bytes,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_the_form_of_its_number() {
        for (code, kind, text, expected) in [
            (26, None, "9000", Ok(vec![0x23, 0x28])),
            (42, None, "10.0.0.1, 10.0.0.2", Ok(vec![10, 0, 0, 1, 10, 0, 0, 2])),
            (15, None, "a.b", Ok(b"a.b".to_vec())),
            (119, None, "a.b", Ok(b"\x01a\x01b\0".to_vec())),
            (200, None, "0x01fF", Ok(vec![1, 255])),
            (200, None, "free text", Ok(b"free text".to_vec())),
            (200, Some(OptionType::Uint16), "1", Ok(vec![0, 1])),
            (26, None, "big", Err("a number from 0 to 65535")),
            (42, None, "10.0.0", Err("IPv4 addresses")),
            (43, None, "0x1", Err("0x01ff")),
            (43, None, "0xäb", Err("0x01ff")),
        ] {
            let found = value(&DhcpOption { code, value: text.into(), kind });
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.bytes(), expected, "{code} {text}"),
                (Err(found), Err(words)) => assert!(found.contains(words), "{found}"),
                (found, expected) => panic!("{code} {text}: {found:?} and not {expected:?}"),
            }
        }
    }
}
