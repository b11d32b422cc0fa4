//! Waiting for what will be true soon.

use std::time::{Duration, Instant};

/// Asks again and again until `holds`, and fails the test after `limit`.
pub fn eventually(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !holds() {
        assert!(Instant::now() < deadline, "after {} s still not true: {what}", limit.as_secs());
        std::thread::sleep(Duration::from_millis(20));
    }
}
