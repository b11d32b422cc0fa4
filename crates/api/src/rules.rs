//! CEL rules over several fields, as text builders. They use only what Kubernetes 1.31 and later offers.
//! An operand is a CEL expression that yields a string; every rule passes when an operand is no address, since the
//! field's own rule reports that.
//!
//! Kubernetes refuses a definition when it can't bound what a rule costs. It knows the length of a field, a literal,
//! `substring`, `trim` and `+`, but not of `split(…)[0]` or `string(…)`, nor what comparing two addresses with `==`
//! costs. Hence the roundabout ways below.

use kube::core::{Reason, Rule};

/// The address in a `serverIP` that may carry a prefix length.
pub(crate) fn bare(address: &str) -> String {
    format!("({address}.contains('/') ? {address}.substring(0, {address}.indexOf('/')) : {address})")
}

/// The two are one address, however they are spelled.
pub(crate) fn same(a: &str, b: &str) -> String {
    format!("cidr({a} + ({a}.contains(':') ? '/128' : '/32')).containsIP(ip({b}))")
}

/// The number `m`, from 0 to 128, as text.
fn text(m: &str) -> String {
    format!(
        "'   1 2 3 4 5 6 7 8 9101112'.substring({m} / 10 * 2, {m} / 10 * 2 + 2).trim() + \
         '0123456789'.substring({m} % 10, {m} % 10 + 1)"
    )
}

/// True when `other` sorts on the given side of `address`, both of one family.
///
/// CEL can't order addresses. Two that differ share a prefix of exactly `n` bits, and the next bit decides. It is zero
/// in `address` when the first address of the network of `n` bits (`s`) is in that of `n + 1` bits too (`g`).
fn beside(address: &str, other: &str, after: bool) -> String {
    let zero = if after { "" } else { "!" };
    let (short, long) = (text("n"), text("(n + 1)"));
    format!(
        "[0, 1, 2, 3, 4, 5, 6, 7].exists(h, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15].exists(l, \
         [h * 16 + l].exists(n, n < (ip({address}).family() == 4 ? 32 : 128) && \
         [cidr({address} + '/' + {short})].exists(s, [cidr({address} + '/' + {long})].exists(g, \
         s.containsIP(ip({other})) && !g.containsIP(ip({other})) && {zero}g.containsIP(s.masked().ip()))))))"
    )
}

/// The rule holds only once `guard` does.
pub(crate) fn when(guard: &str, rule: &str) -> String {
    format!("!({guard}) || ({rule})")
}

/// `address` lies in `cidr`.
pub(crate) fn inside(cidr: &str, address: &str) -> String {
    when(&format!("isCIDR({cidr}) && isIP({address})"), &format!("cidr({cidr}).containsIP(ip({address}))"))
}

/// The two are different addresses.
pub(crate) fn differ(a: &str, b: &str) -> String {
    when(&format!("isIP({a}) && isIP({b})"), &format!("!{}", same(a, b)))
}

/// `start` does not come after `end`.
pub(crate) fn ordered(start: &str, end: &str) -> String {
    when(&format!("isIP({start}) && isIP({end})"), &format!("!{}", beside(end, start, true)))
}

/// `address` is not one of `start` to `end`.
pub(crate) fn outside(start: &str, end: &str, address: &str) -> String {
    when(
        &format!("isIP({start}) && isIP({end}) && isIP({address})"),
        &format!("{} || {}", beside(start, address, false), beside(end, address, true)),
    )
}

/// An optional field may not change, nor come or go.
pub(crate) fn fixed(field: &str) -> String {
    format!(
        "has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})"
    )
}

/// A rule with its message and the field it blames, relative to where it is attached.
pub(crate) fn rule(text: impl Into<String>, field: &str, message: &str) -> Rule {
    Rule::new(text).message(message).field_path(field)
}

/// As [`rule`], for a field that is missing.
pub(crate) fn required(text: impl Into<String>, field: &str, message: &str) -> Rule {
    rule(text, field, message).reason(Reason::FieldValueRequired)
}

/// As [`rule`], for a change that is not allowed.
pub(crate) fn forbidden(text: impl Into<String>, field: &str, message: &str) -> Rule {
    rule(text, field, message).reason(Reason::FieldValueForbidden)
}
