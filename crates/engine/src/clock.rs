//! Milliseconds since the process began to count: small enough to keep in an atomic or a cell.

use std::sync::OnceLock;
use std::time::Instant;

pub fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    // Begins above zero, so that zero can mean "never".
    START.get_or_init(Instant::now).elapsed().as_millis() as u64 + 1
}
