//! How long ago, in the few digits that `kubectl get` shows.

use jiff::Timestamp;

/// The time from an RFC 3339 timestamp until `now`; `<unknown>` without a timestamp, `<invalid>` for one that can't
/// be read or lies ahead.
pub(crate) fn age(since: &str, now: Timestamp) -> String {
    if since.is_empty() {
        return "<unknown>".to_owned();
    }
    match since.parse::<Timestamp>() {
        Ok(since) => human(now.as_second() - since.as_second()),
        Err(_) => "<invalid>".to_owned(),
    }
}

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// Two units while the first is small, one unit after.
fn human(seconds: i64) -> String {
    let two = |unit: i64, name: &str, smaller: i64, small_name: &str| {
        let rest = seconds % unit / smaller;
        let whole = seconds / unit;
        if rest == 0 { format!("{whole}{name}") } else { format!("{whole}{name}{rest}{small_name}") }
    };
    match seconds {
        // Clocks that differ by a second are no error.
        ..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if seconds < 2 * MINUTE => format!("{seconds}s"),
        _ if seconds < 10 * MINUTE => two(MINUTE, "m", 1, "s"),
        _ if seconds < 3 * HOUR => format!("{}m", seconds / MINUTE),
        _ if seconds < 8 * HOUR => two(HOUR, "h", MINUTE, "m"),
        _ if seconds < 2 * DAY => format!("{}h", seconds / HOUR),
        _ if seconds < 8 * DAY => two(DAY, "d", HOUR, "h"),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => two(YEAR, "y", DAY, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortens_as_kubectl_does() {
        let cases = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (121, "2m1s"),
            (599, "9m59s"),
            (600, "10m"),
            (179 * MINUTE + 59, "179m"),
            (180 * MINUTE, "3h"),
            (3 * HOUR + 5 * MINUTE, "3h5m"),
            (8 * HOUR, "8h"),
            (47 * HOUR, "47h"),
            (48 * HOUR, "2d"),
            (7 * DAY + 23 * HOUR, "7d23h"),
            (8 * DAY, "8d"),
            (729 * DAY, "729d"),
            (730 * DAY, "2y"),
            (731 * DAY, "2y1d"),
            (8 * YEAR, "8y"),
        ];
        for (seconds, text) in cases {
            assert_eq!(human(seconds), text, "{seconds} seconds");
        }
    }

    #[test]
    fn reads_timestamps() {
        let now: Timestamp = "2026-01-02T00:05:00Z".parse().unwrap();
        assert_eq!(age("2026-01-02T00:00:00Z", now), "5m");
        assert_eq!(age("2026-01-02T00:04:00.123456Z", now), "60s");
        assert_eq!(age("", now), "<unknown>");
        assert_eq!(age("yesterday", now), "<invalid>");
    }
}
