//! What the field `Connection` says of a message, the same in requests and answers.

use super::bytes::list;
use super::fields::{Fields, Known};

#[derive(Default)]
pub(crate) struct ConnectionOptions {
    pub(crate) close: bool,
    pub(crate) keep_alive: bool,
    pub(crate) upgrade: bool,
    /// It names fields that are for the next one alone.
    pub(crate) names_fields: bool,
}

impl ConnectionOptions {
    /// Takes in one value; a message may have several.
    pub(crate) fn read(&mut self, value: &[u8]) {
        for option in list(value) {
            if option.eq_ignore_ascii_case(b"close") {
                self.close = true;
            } else if option.eq_ignore_ascii_case(b"keep-alive") {
                self.keep_alive = true;
            } else if option.eq_ignore_ascii_case(b"upgrade") {
                self.upgrade = true;
            } else {
                self.names_fields = true;
            }
        }
    }

    /// Whether this field is named.
    pub(crate) fn name(fields: &Fields<'_>, name: &[u8]) -> bool {
        fields.of(Known::Connection).flat_map(list).any(|option| option.eq_ignore_ascii_case(name))
    }
}
