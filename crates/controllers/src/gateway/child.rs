//! What the children of a Gateway are called.

use causeway_translate::naming;

/// What all of them end with, so that a Gateway may be called like the Service that it leads to.
const SUFFIX: &str = "-causeway";
/// A label's value has no more letters.
const LONGEST_LABEL: usize = 63;

/// The name of the children of this Gateway, which no other Gateway's children have.
pub(crate) fn name(gateway: &str) -> String {
    naming::child(gateway, SUFFIX)
}

/// The value of a label with the Gateway's name: that name if it fits, else that of its children.
pub(crate) fn label(gateway: &str) -> String {
    if gateway.len() <= LONGEST_LABEL { gateway.to_owned() } else { name(gateway) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_holds_the_name_if_it_can() {
        assert_eq!(label("web.shop"), "web.shop");
        assert!(label(&"a".repeat(200)).len() <= LONGEST_LABEL);
    }
}
