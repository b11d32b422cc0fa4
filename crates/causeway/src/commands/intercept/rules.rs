//! Which requests are taken, as it is written on the command line. `--header`, `--path` and `--method` must all hold; what can
//! hold only once (a second path, a second method) is an alternative. Each `--match` is one more alternative.

use causeway_api::{HeaderMatch, HttpMatch, MatchType, Method, PathMatch};

/// More than this the API does not take.
const MOST: usize = 16;

/// The flags; flatten them into a command's arguments.
#[derive(Debug, Default, Clone, clap::Args)]
pub(super) struct RuleArgs {
    /// Take requests with this header: `x-user=me`, `x-user^=m` (begins with), `x-user~=m[ea]` (expression). Several must all
    /// hold.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    headers: Vec<HeaderMatch>,
    /// Take requests for this path: `/cart`, `/api/*` (begins with), `~/v[12]/.*` (expression). One of several must hold.
    #[arg(long = "path", value_name = "PATH", value_parser = path)]
    paths: Vec<PathMatch>,
    /// Take requests with this method. One of several must hold.
    #[arg(long = "method", value_name = "METHOD", value_parser = method)]
    methods: Vec<Method>,
    /// Take requests that this matches, too: `header x-user=me; path /api/*; method GET`, all of which must hold. May be given
    /// several times.
    #[arg(long = "match", value_name = "RULES", value_parser = alternative)]
    matches: Vec<HttpMatch>,
}

impl RuleArgs {
    /// The alternatives; none takes all traffic.
    pub(super) fn matches(&self) -> anyhow::Result<Vec<HttpMatch>> {
        let mut all = Vec::new();
        if !(self.headers.is_empty() && self.paths.is_empty() && self.methods.is_empty()) {
            for path in some_or_none(&self.paths) {
                for method in some_or_none(&self.methods) {
                    all.push(HttpMatch { headers: self.headers.clone(), path: path.clone(), method });
                }
            }
        }
        all.extend(self.matches.iter().cloned());
        anyhow::ensure!(
            all.len() <= MOST,
            "{} alternatives are more than the {MOST} that a request can have; an expression (--path '~…', --header \
             'NAME~=…') says several at once",
            all.len()
        );
        Ok(all)
    }
}

fn some_or_none<T: Clone>(list: &[T]) -> Vec<Option<T>> {
    if list.is_empty() { vec![None] } else { list.iter().cloned().map(Some).collect() }
}

fn header(text: &str) -> Result<HeaderMatch, String> {
    const WRITE: &str = "write NAME=VALUE, NAME^=BEGINNING or NAME~=EXPRESSION, for example x-user=me";
    let (name, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is no header: {WRITE}"))?;
    let (name, kind) = match (name.strip_suffix('^'), name.strip_suffix('~')) {
        (Some(name), _) => (name, MatchType::Prefix),
        (_, Some(name)) => (name, MatchType::Regex),
        (None, None) => (name, MatchType::Exact),
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&*+.^_`|~-".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_name) {
        return Err(format!("`{name}` is no name of a header: {WRITE}"));
    }
    check_expression(kind, value)?;
    Ok(HeaderMatch { name: name.to_owned(), value: value.to_owned(), kind })
}

fn path(text: &str) -> Result<PathMatch, String> {
    let (value, kind) = match (text.strip_prefix('~'), text.strip_suffix('*')) {
        (Some(expression), _) => (expression, MatchType::Regex),
        (None, Some(beginning)) => (beginning, MatchType::Prefix),
        (None, None) => (text, MatchType::Exact),
    };
    if kind != MatchType::Regex && !value.starts_with('/') {
        return Err(format!("`{text}` is no path: write /PATH, /BEGINNING* or ~EXPRESSION"));
    }
    if value.is_empty() {
        return Err("an empty expression matches every path: leave it out".to_owned());
    }
    check_expression(kind, value)?;
    Ok(PathMatch { value: value.to_owned(), kind })
}

fn check_expression(kind: MatchType, value: &str) -> Result<(), String> {
    match regex::Regex::new(value) {
        Err(error) if kind == MatchType::Regex => Err(format!("`{value}` is no expression: {error}")),
        _ => Ok(()),
    }
}

fn method(text: &str) -> Result<Method, String> {
    let upper = text.to_uppercase();
    serde_json::from_value(upper.into())
        .map_err(|_| format!("`{text}` is no method: write GET, POST, PUT, PATCH, DELETE, HEAD or OPTIONS"))
}

fn alternative(text: &str) -> Result<HttpMatch, String> {
    const WRITE: &str = "write for example `header x-user=me; path /api/*; method GET`";
    let mut all = HttpMatch::default();
    for rule in text.split(';').map(str::trim).filter(|rule| !rule.is_empty()) {
        let (what, value) =
            rule.split_once(char::is_whitespace).ok_or_else(|| format!("`{rule}` is no rule: {WRITE}"))?;
        let value = value.trim();
        let twice = || format!("`{text}` has two of {what}, which never hold together: give --match twice");
        match what {
            "header" => all.headers.push(header(value)?),
            "path" if all.path.is_some() => return Err(twice()),
            "path" => all.path = Some(path(value)?),
            "method" if all.method.is_some() => return Err(twice()),
            "method" => all.method = Some(method(value)?),
            _ => return Err(format!("`{what}` is nothing to match: {WRITE}")),
        }
    }
    if all == HttpMatch::default() { Err(format!("no rule is given: {WRITE}")) } else { Ok(all) }
}

/// What is taken, in words.
pub(crate) fn words(matches: &[HttpMatch]) -> String {
    if matches.is_empty() {
        return "all traffic".to_owned();
    }
    let compared = |kind: MatchType| match kind {
        MatchType::Exact => "=",
        MatchType::Prefix => "^=",
        MatchType::Regex => "~=",
    };
    let one = |rule: &HttpMatch| {
        let method = rule.method.map(|method| serde_json::to_value(method).unwrap_or_default());
        let method = method.and_then(|method| method.as_str().map(ToOwned::to_owned));
        let path = rule.path.as_ref().map(|path| match path.kind {
            MatchType::Exact => path.value.clone(),
            MatchType::Prefix => format!("{}*", path.value),
            MatchType::Regex => format!("~{}", path.value),
        });
        let headers = rule
            .headers
            .iter()
            .map(|header| format!("{}{}{}", header.name, compared(header.kind), header.value));
        method.into_iter().chain(path).chain(headers).collect::<Vec<_>>().join(" ")
    };
    matches.iter().map(one).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        rules: RuleArgs,
    }

    fn taken(args: &[&str]) -> String {
        let command = Command::try_parse_from(std::iter::once(&"x").chain(args)).unwrap();
        words(&command.rules.matches().unwrap())
    }

    fn refused(args: &[&str]) -> String {
        match Command::try_parse_from(std::iter::once(&"x").chain(args)) {
            Ok(command) => command.rules.matches().unwrap_err().to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn flags_are_anded_and_what_holds_only_once_is_an_alternative() {
        assert_eq!(taken(&[]), "all traffic");
        assert_eq!(taken(&["--header", "X-User=me=you"]), "X-User=me=you");
        assert_eq!(taken(&["--header", "a^=b", "--header", "c~=d.*"]), "a^=b c~=d.*");
        assert_eq!(
            taken(&["--header", "u=me", "--path", "/a", "--path", "/b/*", "--method", "get"]),
            "GET /a u=me or GET /b/* u=me"
        );
        assert_eq!(
            taken(&["--header", "u=me", "--match", "header u=you; path ~/v[12]; method POST"]),
            "u=me or POST ~/v[12] u=you"
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_to_write() {
        for (args, says) in [
            (["--header", "x-user"], "is no header: write NAME=VALUE"),
            (["--header", "=me"], "is no name of a header"),
            (["--header", "x user=me"], "is no name of a header"),
            (["--header", "x~=("], "`(` is no expression"),
            (["--path", "cart"], "is no path: write /PATH"),
            (["--path", "~"], "matches every path"),
            (["--method", "FETCH"], "is no method"),
            (["--match", "cookie a=b"], "`cookie` is nothing to match"),
            (["--match", "path /a; path /b"], "give --match twice"),
            (["--match", " ; "], "no rule is given"),
        ] {
            let said = refused(&args);
            assert!(said.contains(says), "{args:?}: {said}");
        }
        let many: Vec<String> = (0..17).flat_map(|n| ["--path".to_owned(), format!("/{n}")]).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(refused(&many).contains("17 alternatives"));
    }
}
