//! Colours of what is printed: where a person looks at a terminal, and not with `NO_COLOR` (<https://no-color.org>).

use std::ffi::OsString;
use std::io::IsTerminal;

/// Whether text gets colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    Plain,
    Colours,
}

/// What a piece of text means to its reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    #[default]
    Neutral,
    Good,
    Bad,
    /// Beside the point.
    Faint,
}

impl Paint {
    /// As standard output wants it.
    pub(crate) fn of_stdout() -> Self {
        Self::wanted(std::io::stdout().is_terminal(), |name| std::env::var_os(name))
    }

    /// As standard error wants it.
    pub(crate) fn of_stderr() -> Self {
        Self::wanted(std::io::stderr().is_terminal(), |name| std::env::var_os(name))
    }

    fn wanted(is_terminal: bool, env: impl Fn(&str) -> Option<OsString>) -> Self {
        let is_refused = env("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = env("TERM").is_some_and(|term| term == "dumb");
        if is_terminal && !is_refused && !is_dumb { Self::Colours } else { Self::Plain }
    }

    pub(crate) fn tint(self, tone: Tone, text: &str) -> String {
        let code = match (self, tone) {
            (Self::Plain, _) | (_, Tone::Neutral) => return text.to_owned(),
            (_, Tone::Good) => "32",
            (_, Tone::Bad) => "31",
            (_, Tone::Faint) => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_whose_owner_wants_them() {
        let with = |set: &'static str, value: &'static str| {
            move |name: &str| (name == set).then(|| OsString::from(value))
        };
        assert_eq!(Paint::wanted(true, |_| None), Paint::Colours);
        assert_eq!(Paint::wanted(true, with("NO_COLOR", "")), Paint::Colours, "empty means not set");
        for paint in [
            Paint::wanted(false, |_| None),
            Paint::wanted(true, with("NO_COLOR", "1")),
            Paint::wanted(true, with("TERM", "dumb")),
        ] {
            assert_eq!(paint, Paint::Plain);
        }
        assert_eq!(Paint::Plain.tint(Tone::Bad, "x"), "x");
        assert_eq!(Paint::Colours.tint(Tone::Bad, "x"), "\x1b[31mx\x1b[0m");
        assert_eq!(Paint::Colours.tint(Tone::Neutral, "x"), "x");
    }
}
