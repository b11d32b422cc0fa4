//! Paths are normalised once, compared as normalised and sent on as normalised, so that what was matched is what the
//! endpoint gets: no `.` and `..`, no empty segments, no character written as `%xx` that needs no such writing, and
//! every other one written so. What is written as `%2F` is no separator here and may be one elsewhere, so it stays.

use std::borrow::Cow;

use super::fault::Fault;

/// The path as everybody would write it; most are so already and not copied.
///
/// # Errors
/// If it is no absolute path, or leads above its root.
pub(crate) fn normalise(path: &[u8]) -> Result<Cow<'_, str>, Fault> {
    if path.first() != Some(&b'/') {
        return Err(Fault::bad("the path does not begin with /"));
    }
    if is_plain(path)
        && let Ok(text) = std::str::from_utf8(path)
    {
        return Ok(Cow::Borrowed(text));
    }
    let written = rewrite(path)?;
    resolve(&written).map(Cow::Owned)
}

/// Whether nothing has to be looked at twice.
fn is_plain(path: &[u8]) -> bool {
    let mut before = 0;
    for byte in path {
        let plain = match byte {
            // An empty segment, or the beginning of one of dots, perhaps.
            b'/' | b'.' => before != b'/',
            byte => needs_no_escape(*byte),
        };
        if !plain {
            return false;
        }
        before = *byte;
    }
    true
}

/// May stand in a path as it is, `/` and `%` aside.
fn needs_no_escape(byte: u8) -> bool {
    is_unreserved(byte)
        || matches!(
            byte,
            b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' | b':' | b'@'
        )
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Every character in the one way to write it.
fn rewrite(path: &[u8]) -> Result<String, Fault> {
    let mut written = String::with_capacity(path.len() + 16);
    let mut rest = path;
    while let [byte, after @ ..] = rest {
        rest = after;
        match byte {
            b'%' => {
                let byte =
                    after.get(..2).and_then(hex).ok_or(Fault::bad("a % is not followed by two digits"))?;
                rest = &after[2..];
                match byte {
                    0 => return Err(Fault::bad("the path has a NUL")),
                    byte if is_unreserved(byte) => written.push(byte as char),
                    byte => escape(&mut written, byte),
                }
            }
            b'/' => written.push('/'),
            b'\\' => return Err(Fault::bad("the path has a backslash")),
            byte if needs_no_escape(*byte) => written.push(*byte as char),
            byte => escape(&mut written, *byte),
        }
    }
    Ok(written)
}

pub(super) fn hex(digits: &[u8]) -> Option<u8> {
    let digit = |at: usize| (digits[at] as char).to_digit(16);
    Some((digit(0)? * 16 + digit(1)?) as u8)
}

fn escape(written: &mut String, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    written.push('%');
    written.push(HEX[usize::from(byte >> 4)] as char);
    written.push(HEX[usize::from(byte & 15)] as char);
}

/// Without segments of dots and empty ones.
fn resolve(path: &str) -> Result<String, Fault> {
    let mut resolved = String::with_capacity(path.len());
    let mut segments = path[1..].split('/').peekable();
    while let Some(segment) = segments.next() {
        match segment {
            "" | "." => {}
            ".." => {
                let parent = resolved.rfind('/').ok_or(Fault::bad("the path leads above its root"))?;
                resolved.truncate(parent);
            }
            segment if hides_dots(segment) => return Err(Fault::bad("the path hides dots")),
            segment => {
                resolved.push('/');
                resolved.push_str(segment);
                continue;
            }
        }
        // What ended at a directory still does.
        if segments.peek().is_none() {
            resolved.push('/');
        }
    }
    Ok(resolved)
}

/// Whether a server that takes `%2F` or `%5C` for a separator, or cuts parameters off, would see dots.
fn hides_dots(segment: &str) -> bool {
    let parts = segment.split("%2F").flat_map(|part| part.split("%5C"));
    parts.filter_map(|part| part.split(';').next()).any(|name| name == "." || name == "..")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_path_has_one_form() {
        for (path, normal) in [
            ("/", "/"),
            ("/a/b", "/a/b"),
            ("/a/", "/a/"),
            ("//a///b", "/a/b"),
            ("/a//", "/a/"),
            ("/a/./b/../c", "/a/c"),
            ("/a/..", "/"),
            ("/a/b/..", "/a/"),
            ("/a/.", "/a/"),
            ("/%61%2D%7e", "/a-~"),
            ("/a%2fb", "/a%2Fb"),
            ("/a%2Fb", "/a%2Fb"),
            ("/a/%2e%2E/b", "/b"),
            ("/a b", "/a%20b"),
            ("/ä{}", "/%C3%A4%7B%7D"),
            ("/a.b/.well-known/..c", "/a.b/.well-known/..c"),
            ("/a;v=1/b", "/a;v=1/b"),
            ("/%25", "/%25"),
        ] {
            assert_eq!(normalise(path.as_bytes()).unwrap(), normal, "{path}");
        }
        assert!(matches!(normalise(b"/a/b.c"), Ok(Cow::Borrowed(_))));
    }

    #[test]
    fn paths_that_servers_read_differently_are_refused() {
        for path in [
            "",
            "a",
            "/..",
            "/a/../../b",
            "/%",
            "/%2",
            "/%zz",
            "/%00",
            "/a\\b",
            "/a/..%2fb",
            "/a%2f..%2fb",
            "/a%5c..",
            "/..;/a",
            "/a/..;x=1/b",
            "/.;/a",
            "/%2e%2e;/a",
        ] {
            assert!(normalise(path.as_bytes()).is_err(), "{path}");
        }
    }

    proptest! {
        #[test]
        fn normalising_twice_changes_nothing(path in "/[a-c./%25;F\\PC ]{0,20}") {
            if let Ok(once) = normalise(path.as_bytes()) {
                let twice = normalise(once.as_bytes());
                prop_assert_eq!(twice.as_deref(), Ok(&*once));
                prop_assert!(once.starts_with('/') && !once.contains("//") && once.is_ascii());
                prop_assert!(once.split('/').all(|segment| segment != "." && segment != ".."));
            }
        }
    }
}
