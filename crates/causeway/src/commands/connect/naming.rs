//! What a machine is called in a cluster.

/// The longest label that DNS and Kubernetes take.
const LONGEST: usize = 63;

/// USER-HOST, as far as a name in Kubernetes can say it.
pub(super) fn usual() -> String {
    let user =
        ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok().filter(|name| !name.is_empty()));
    let user = user.unwrap_or_else(|| "dev".to_owned());
    label(&format!("{user}-{}", host()))
}

/// Whose machine it is, for people.
pub(super) fn display() -> String {
    let user =
        std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| "somebody".to_owned());
    format!("{user} on {}", host()).chars().take(128).collect()
}

fn host() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    // The first part: what follows is where it is at the moment.
    let first = name.split('.').next().unwrap_or_default();
    if first.is_empty() { "machine".to_owned() } else { first.to_owned() }
}

fn label(text: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    let text: String = text.chars().map(plain).take(LONGEST).collect();
    let text = text.trim_matches('-');
    if text.is_empty() { "workstation".to_owned() } else { text.to_owned() }
}

/// A name that was given.
pub(super) fn checked(text: &str) -> Result<String, String> {
    let is_label = !text.is_empty()
        && text.len() <= LONGEST
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-');
    if is_label {
        Ok(text.to_owned())
    } else {
        Err(format!("`{text}` is no name: small letters, digits and dashes, for example {}", label(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_user_on_any_machine_has_a_name() {
        for (text, expected) in [
            ("Alice.B-laptop_7", "alice-b-laptop-7"),
            ("--x--", "x"),
            ("äöü", "workstation"),
            (&"a".repeat(99), &"a".repeat(63)),
        ] {
            assert_eq!(label(text), expected);
            assert_eq!(checked(&label(text)), Ok(expected.to_owned()));
        }
        assert!(checked(&usual()).is_ok());
        assert!(checked("Alice").unwrap_err().contains("for example alice"));
    }
}
