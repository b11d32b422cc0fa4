//! Waiting in tests without a runtime.

use std::time::{Duration, Instant};

use crate::wait::{Answer, PAUSE, given_up, patience};

/// Looks again and again until there is what is waited for.
///
/// # Panics
/// After `limit`, with `what` and how things stand.
pub fn eventually<A: Answer>(what: &str, limit: Duration, mut look: impl FnMut() -> A) -> A::Found {
    let deadline = Instant::now() + patience(limit);
    loop {
        match look().found() {
            Ok(found) => return found,
            Err(state) => assert!(Instant::now() < deadline, "{}", given_up(what, limit, &state)),
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_what_comes() {
        let mut looks = 0;
        let found = eventually("the second look", Duration::from_mins(1), || {
            looks += 1;
            (looks == 2).then_some(looks)
        });
        assert_eq!(found, 2);
    }

    #[test]
    #[should_panic(expected = "still not so: never")]
    fn gives_up() {
        eventually("never", Duration::ZERO, || false);
    }
}
