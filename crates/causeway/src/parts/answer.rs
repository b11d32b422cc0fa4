//! The answer of a command: one value, shown as text to people and as JSON to programs (`-o json`).

use anyhow::Context;
use serde::Serialize;

use super::output::Output;
use super::paint::Paint;

/// What a command has found out or done.
pub(crate) trait Answer: Serialize {
    /// The same for people, without the end of the last line.
    fn text(&self, paint: Paint) -> String;
}

/// The flag; flatten it into a command's arguments.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct FormatArg {
    /// How to print the answer.
    #[arg(
        id = "output",
        long = "output",
        short = 'o',
        value_enum,
        default_value_t = Format::Text,
        value_name = "FORMAT"
    )]
    format: Format,
}

/// How an answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    #[value(alias = "table")]
    Text,
    Json,
}

impl FormatArg {
    /// Whether programs read it: then nothing but the answer goes to standard output.
    pub(crate) fn is_json(self) -> bool {
        self.format == Format::Json
    }

    /// Prints the answer on standard output.
    ///
    /// # Errors
    /// When it can't be written as JSON.
    pub(crate) fn print(self, answer: &impl Answer) -> anyhow::Result<()> {
        self.print_to(Output::Stdout, answer)
    }

    /// Prints the answer.
    ///
    /// # Errors
    /// When it can't be written as JSON.
    pub(crate) fn print_to(self, output: Output, answer: &impl Answer) -> anyhow::Result<()> {
        let paint = if output == Output::Stdout { Paint::of_stdout() } else { Paint::Plain };
        let text = match self.format {
            Format::Text => answer.text(paint),
            Format::Json => serde_json::to_string_pretty(answer).context("the answer can't be JSON")?,
        };
        output.line(text);
        Ok(())
    }
}
