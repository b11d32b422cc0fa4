//! Variables as text that other programs read: dotenv files, shells, JSON.

use std::fmt::Write as _;

use anyhow::Context as _;

/// How variables are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EnvFormat {
    /// `NAME=value` lines, for dotenv libraries and Compose.
    #[default]
    #[value(alias = "text")]
    Dotenv,
    /// One object.
    Json,
    /// `export NAME='value'` lines, for `eval "$(causeway env deploy/web -o shell)"`.
    Shell,
}

/// What is written, and the names that can't be written so.
pub(crate) struct Written {
    pub(crate) text: String,
    pub(crate) left_out: Vec<String>,
}

impl EnvFormat {
    /// Writes them, with the end of the last line.
    pub(crate) fn write(self, variables: &[(String, String)]) -> anyhow::Result<Written> {
        let mut written = Written { text: String::new(), left_out: Vec::new() };
        match self {
            Self::Json => {
                let all: serde_json::Map<String, serde_json::Value> =
                    variables.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
                written.text =
                    serde_json::to_string_pretty(&all).context("the variables can't be JSON")? + "\n";
            }
            Self::Dotenv => {
                for (name, value) in variables {
                    if is_plain_name(name) {
                        // Writing to a String can't fail.
                        let _ = writeln!(written.text, "{name}={}", dotenv(value));
                    } else {
                        written.left_out.push(name.clone());
                    }
                }
            }
            Self::Shell => {
                for (name, value) in variables {
                    if is_shell_name(name) {
                        let _ = writeln!(written.text, "export {name}='{}'", value.replace('\'', r"'\''"));
                    } else {
                        written.left_out.push(name.clone());
                    }
                }
            }
        }
        Ok(written)
    }
}

/// A value that every reader of dotenv files takes for the same: bare where that is plain, also to a shell that reads the file,
/// else in double quotes.
fn dotenv(value: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:@%+,=".contains(&byte);
    if value.bytes().all(is_plain) {
        return value.to_owned();
    }
    let mut quoted = String::with_capacity(value.len() + 2);
    quoted.push('"');
    for letter in value.chars() {
        match letter {
            '"' | '\\' | '$' | '`' => quoted.extend(['\\', letter]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            _ => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// Whether a name is one that most programs take, and means nothing else to a shell that reads it.
fn is_plain_name(name: &str) -> bool {
    let mut letters = name.bytes();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && letters.all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

/// Whether a shell can have a variable of this name; Kubernetes allows dots and dashes besides.
fn is_shell_name(name: &str) -> bool {
    let mut letters = name.bytes();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && letters.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables() -> Vec<(String, String)> {
        [
            ("URL", "postgres://u:p@db:5432/x?a=1&b=2"),
            ("EMPTY", ""),
            ("TEXT", "it's \"two\"\nlines, $HOME and \\ # no comment"),
            ("with.dot-1", "x"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
    }

    #[test]
    fn dotenv_quotes_what_is_not_plain() {
        let written = EnvFormat::Dotenv.write(&variables()).unwrap();
        assert_eq!(
            written.text,
            "URL=\"postgres://u:p@db:5432/x?a=1&b=2\"\nEMPTY=\n\
             TEXT=\"it's \\\"two\\\"\\nlines, \\$HOME and \\\\ # no comment\"\nwith.dot-1=x\n"
        );
    }

    #[test]
    fn a_shell_that_reads_a_dotenv_file_runs_nothing_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let mark = dir.path().join("ran");
        let mark = mark.display();
        let pairs = [
            ("A".to_owned(), format!("x;{{touch,{mark}}}")),
            ("B".to_owned(), format!("x|(touch<{mark})&>{mark}")),
            (format!("$(touch {mark})"), "x".to_owned()),
            (format!("C;>{mark};D"), "x".to_owned()),
        ];
        let written = EnvFormat::Dotenv.write(&pairs).unwrap();
        assert_eq!(written.left_out, [pairs[2].0.as_str(), pairs[3].0.as_str()]);
        let path = dir.path().join("env");
        std::fs::write(&path, &written.text).unwrap();
        for shell in ["sh", "bash"] {
            let script = format!("set -a; . {}; printf '%s' \"$A\"", path.display());
            let Ok(ran) = std::process::Command::new(shell).args(["-c", &script]).output() else { continue };
            assert_eq!(String::from_utf8(ran.stdout).unwrap(), pairs[0].1, "{shell}");
        }
        let left: Vec<_> =
            std::fs::read_dir(dir.path()).unwrap().map(|one| one.unwrap().file_name()).collect();
        assert_eq!(left, ["env"]);
    }

    #[test]
    fn a_shell_reads_every_value_as_it_is() {
        let written = EnvFormat::Shell.write(&variables()).unwrap();
        assert_eq!(written.left_out, ["with.dot-1"]);
        let script = format!("{}printf '%s|' \"$URL\" \"$EMPTY\" \"$TEXT\"", written.text);
        let ran = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        let expected: Vec<String> =
            variables().iter().take(3).map(|(_, value)| format!("{value}|")).collect();
        let expected = expected.concat();
        assert_eq!(String::from_utf8(ran.stdout).unwrap(), expected);
    }

    #[test]
    fn json_is_one_object() {
        let written = EnvFormat::Json.write(&variables()).unwrap();
        let read: serde_json::Value = serde_json::from_str(&written.text).unwrap();
        assert_eq!(read["TEXT"], variables()[2].1.as_str());
        assert_eq!(read.as_object().unwrap().len(), 4);
    }
}
