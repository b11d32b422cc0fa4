//! Text that nobody but its owner may see.

use zeroize::Zeroizing;

/// A key, a password or a token. It can't be printed by accident, and its memory is wiped when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes the text; the caller's other copies are the caller's to wipe.
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The text, to be stored in a place of its owner's, and nowhere else.
    pub fn expose(&self) -> &str {
        &self.0
    }
}
