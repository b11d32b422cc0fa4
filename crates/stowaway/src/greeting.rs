//! What a laptop says first on a link, and what the hub answers when the link is put to use. JSON, in which a later release
//! may say more.

use serde::{Deserialize, Serialize};

use crate::way::Way;

/// The first word of a laptop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Greeting {
    /// By which way it comes.
    pub(crate) way: Way,
    /// The same for all links of one process: another session of the same workstation takes its place.
    pub(crate) session: String,
}

/// The hub's answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Welcome {
    /// What the hub's replica is called.
    pub(crate) replica: String,
}

impl Greeting {
    pub(crate) fn encode(&self) -> Vec<u8> {
        // Neither part can fail to be written.
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok().filter(|greeting: &Self| greeting.session.len() <= 64)
    }
}

/// The longest answer.
pub(crate) const MAX_WELCOME: usize = 4 << 10;

impl Welcome {
    /// The answer as a line.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }

    pub(crate) fn decode(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_release_may_say_more() {
        let more = br#"{"way":"PortForward","session":"s","colour":"blue"}"#;
        let greeting = Greeting { way: Way::PortForward, session: "s".to_owned() };
        assert_eq!(Greeting::decode(more), Some(greeting.clone()));
        assert_eq!(Greeting::decode(&greeting.encode()), Some(greeting));
        assert_eq!(Greeting::decode(br#"{"way":"Pigeon","session":"s"}"#), None);
        assert_eq!(Greeting::decode(b"\xff"), None);
        assert_eq!(
            Welcome::decode(br#"{"replica":"r","more":1}"#),
            Some(Welcome { replica: "r".to_owned() })
        );
    }
}
