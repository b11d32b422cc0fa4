//! The room for HTTP. The engine does not speak it yet: this is what a plan hears that asks for it.

use causeway_ir::Protocol;

/// What is wrong with a protocol, if it is HTTP.
pub(crate) fn refusal(protocol: &Protocol) -> Option<&'static str> {
    matches!(protocol, Protocol::Http(_)).then_some(
        "this engine does not speak HTTP yet: look at `tls` or nothing (`tcp`), or give the plan to Envoy",
    )
}
