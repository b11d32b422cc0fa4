//! CEL rules over several fields, as text builders. They use only what Kubernetes 1.31 and later offers: `isIP`,
//! `ip`, `cidr` and plain macros. An operand is a CEL expression that yields a string; every rule passes when an
//! operand is no address, since the field's own rule reports that.

use kube::core::{Reason, Rule};

/// The address in a `serverIP` that may carry a prefix length.
pub fn bare(address: &str) -> String {
    format!("{address}.split('/')[0]")
}

/// True when address `a` sorts before address `b` of the same family.
///
/// CEL can't order addresses. Two that differ share a prefix of exactly `n` bits, and the one whose next bit is zero
/// comes first: that is the case when masking to `n + 1` bits gives the same network as masking to `n`.
/// `h * 16 + l` counts `n` from 0 to 127.
pub fn before(a: &str, b: &str) -> String {
    let net = |bits: &str| format!("cidr({a} + '/' + string({bits}))");
    let (shared, longer) = (net("h * 16 + l"), net("h * 16 + l + 1"));
    format!(
        "[0, 1, 2, 3, 4, 5, 6, 7].exists(h, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15].exists(l, \
         h * 16 + l < (ip({a}).family() == 4 ? 32 : 128) && {shared}.containsIP({b}) && !{longer}.containsIP({b}) && \
         {longer}.masked().ip() == {shared}.masked().ip()))"
    )
}

/// The rule holds only once `guard` does.
pub fn when(guard: &str, rule: &str) -> String {
    format!("!({guard}) || ({rule})")
}

/// `address` lies in `cidr`.
pub fn inside(cidr: &str, address: &str) -> String {
    when(&format!("isCIDR({cidr}) && isIP({address})"), &format!("cidr({cidr}).containsIP({address})"))
}

/// `start` does not come after `end`.
pub fn ordered(start: &str, end: &str) -> String {
    when(&format!("isIP({start}) && isIP({end})"), &format!("!{}", before(end, start)))
}

/// `address` is not one of `start` to `end`.
pub fn outside(start: &str, end: &str, address: &str) -> String {
    when(
        &format!("isIP({start}) && isIP({end}) && isIP({address})"),
        &format!("{} || {}", before(address, start), before(end, address)),
    )
}

/// An optional field may not change, nor come or go.
pub fn fixed(field: &str) -> String {
    format!("has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})")
}

/// A rule with its message and the field it blames, relative to where it is attached.
pub fn rule(text: impl Into<String>, field: &str, message: &str) -> Rule {
    Rule::new(text).message(message).field_path(field)
}

/// As [`rule`], for a field that is missing.
pub fn required(text: impl Into<String>, field: &str, message: &str) -> Rule {
    rule(text, field, message).reason(Reason::FieldValueRequired)
}

/// As [`rule`], for a change that is not allowed.
pub fn forbidden(text: impl Into<String>, field: &str, message: &str) -> Rule {
    rule(text, field, message).reason(Reason::FieldValueForbidden)
}
