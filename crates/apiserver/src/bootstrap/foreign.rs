//! The definitions of others that a server has from the start, packed when it was built: those of the Gateway API, as its
//! project publishes them, and Multus' attachments.

use miniz_oxide::inflate::decompress_to_vec;
use serde_json::Value;

/// One definition.
pub(super) struct Foreign {
    pub name: &'static str,
    pub packed: &'static [u8],
}

pub(super) const ALL: &[Foreign] = &include!(concat!(env!("OUT_DIR"), "/foreign.in"));

impl Foreign {
    /// The object itself, which is needed only where it is not stored yet.
    pub(super) fn object(&self) -> Result<Value, String> {
        let text = decompress_to_vec(self.packed).map_err(|error| format!("{}: {error}", self.name))?;
        serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", self.name))
    }
}
