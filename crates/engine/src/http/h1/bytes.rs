//! Which bytes may stand where.

const TOKEN: u8 = 1;
const VALUE: u8 = 2;
const TARGET: u8 = 4;

static CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut classes = [0; 256];
    let mut b = 0;
    while b < 256 {
        let byte = b as u8;
        let mut class = 0;
        if byte.is_ascii_alphanumeric()
            || matches!(
                byte,
                b'!' | b'#'
                    | b'$'
                    | b'%'
                    | b'&'
                    | b'\''
                    | b'*'
                    | b'+'
                    | b'-'
                    | b'.'
                    | b'^'
                    | b'_'
                    | b'`'
                    | b'|'
                    | b'~'
            )
        {
            class |= TOKEN;
        }
        if byte == b'\t' || (byte >= b' ' && byte != 0x7f) {
            class |= VALUE;
        }
        if byte > b' ' && byte != 0x7f && byte != b'#' {
            class |= TARGET;
        }
        classes[b] = class;
        b += 1;
    }
    classes
}

/// Of a method or a field's name.
pub(crate) fn is_token(byte: u8) -> bool {
    CLASSES[byte as usize] & TOKEN != 0
}

/// Of a field's value: no control character but the tab.
pub(crate) fn is_value(byte: u8) -> bool {
    CLASSES[byte as usize] & VALUE != 0
}

/// Of a request's target: no space, no control character, no fragment.
pub(crate) fn is_target(byte: u8) -> bool {
    CLASSES[byte as usize] & TARGET != 0
}

/// Without spaces and tabs at the ends.
pub(crate) fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

/// The members of a comma-separated list that are not empty.
pub(crate) fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|b| *b == b',').map(trim).filter(|member| !member.is_empty())
}

/// A number of nothing but digits.
pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    digits.iter().try_fold(0, |number: u64, b| b.is_ascii_digit().then(|| number * 10 + u64::from(b - b'0')))
}
