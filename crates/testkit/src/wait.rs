//! Waiting for what will be so soon, with a deadline that only a real failure runs into.

use std::fmt::Display;
use std::sync::LazyLock;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

/// Longer than anything takes when all is well. `CAUSEWAY_TEST_PATIENCE=3` makes every test wait three times as long,
/// for machines that are slow or busy.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Between two looks.
pub(crate) const PAUSE: Duration = Duration::from_millis(10);

/// `limit`, as long as this machine needs it to be.
///
/// # Panics
/// When `CAUSEWAY_TEST_PATIENCE` is no number above zero.
pub fn patience(limit: Duration) -> Duration {
    static FACTOR: LazyLock<f64> = LazyLock::new(|| {
        let Ok(text) = std::env::var("CAUSEWAY_TEST_PATIENCE") else { return 1.0 };
        let factor = text.parse().ok().filter(|factor: &f64| factor.is_finite() && *factor > 0.0);
        factor.unwrap_or_else(|| panic!("CAUSEWAY_TEST_PATIENCE is a number such as 3, not {text:?}"))
    });
    limit.mul_f64(*FACTOR)
}

/// What a look gives: a `bool`, an `Option`, or a `Result` whose error says how things stand (and is only asked for
/// words once nothing more is waited for).
pub trait Answer {
    /// What was waited for.
    type Found;
    /// How things stand without it; nothing to say is an empty text.
    type State: Display;

    /// Tells the two apart.
    ///
    /// # Errors
    /// When it is not there yet.
    fn found(self) -> Result<Self::Found, Self::State>;
}

impl Answer for bool {
    type Found = ();
    type State = &'static str;

    fn found(self) -> Result<(), &'static str> {
        self.then_some(()).ok_or("")
    }
}

impl<T> Answer for Option<T> {
    type Found = T;
    type State = &'static str;

    fn found(self) -> Result<T, &'static str> {
        self.ok_or("")
    }
}

impl<T, E: Display> Answer for Result<T, E> {
    type Found = T;
    type State = E;

    fn found(self) -> Self {
        self
    }
}

/// Looks again and again until there is what is waited for.
///
/// # Panics
/// After [`PATIENCE`], with `what` and how things stand.
pub async fn eventually<A: Answer>(what: &str, mut look: impl AsyncFnMut() -> A) -> A::Found {
    let deadline = Instant::now() + patience(PATIENCE);
    loop {
        match look().await.found() {
            Ok(found) => return found,
            Err(state) => assert!(Instant::now() < deadline, "{}", given_up(what, PATIENCE, &state)),
        }
        sleep(PAUSE).await;
    }
}

/// What `work` gives.
///
/// # Panics
/// When that takes longer than [`PATIENCE`].
pub async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    let done = timeout(patience(PATIENCE), work).await;
    done.unwrap_or_else(|_| panic!("{}", given_up(what, PATIENCE, &"")))
}

/// What a test says that waited in vain.
pub(crate) fn given_up(what: &str, limit: Duration, state: &dyn Display) -> String {
    let seconds = patience(limit).as_secs_f64();
    let state = state.to_string();
    let state = if state.is_empty() { state } else { format!("; last seen: {state}") };
    format!("after {seconds:.0} s still not so: {what}{state}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn gives_what_comes() {
        let mut looks = 0;
        let found = eventually("the third look", async || {
            looks += 1;
            (looks == 3).then_some("it")
        })
        .await;
        assert_eq!((found, looks), ("it", 3));
        eventually("so", async || true).await;
        assert_eq!(soon("quick", async { 7 }).await, 7);
    }

    #[tokio::test(start_paused = true)]
    async fn gives_up_and_says_how_things_stand() {
        let began = Instant::now();
        let ended = tokio::spawn(eventually("a pod", async || Err::<(), _>("Pending"))).await.unwrap_err();
        let text = *ended.into_panic().downcast::<String>().unwrap();
        assert!(text.ends_with("still not so: a pod; last seen: Pending"), "{text}");
        assert!(began.elapsed() >= patience(PATIENCE));
    }
}
