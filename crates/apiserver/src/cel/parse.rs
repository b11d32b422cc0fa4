//! Expressions parsed, once for all places that have the same, and errors in the words and form of Kubernetes' compiler.

use std::collections::HashMap;
use std::fmt::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock, Mutex};

use causeway_base::lock::lock;
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{IdedExpr, ParseErrors};

/// How many parsed expressions are remembered.
const PARSED: usize = 256;

/// Something wrong in an expression, and where: line and column from one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Flaw {
    pub line: usize,
    pub column: usize,
    pub message: String,
}

/// All that is wrong with an expression, shown as Kubernetes' compiler does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flaws {
    pub source: String,
    pub flaws: Vec<Flaw>,
}

impl fmt::Display for Flaws {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Flaw { line, column, message }) in self.flaws.iter().enumerate() {
            if i > 0 {
                f.write_char('\n')?;
            }
            write!(f, "ERROR: <input>:{line}:{column}: {message}")?;
            if let Some(text) = self.source.split('\n').nth(line - 1) {
                let dots = ".".repeat(column.saturating_sub(1).min(text.chars().count()));
                write!(f, "\n | {}\n | {dots}^", text.replace('\t', " "))?;
            }
        }
        Ok(())
    }
}

/// Parsing is by far the dearest step, and schemas repeat the same rule in many places.
pub(crate) fn parse_shared(source: &str) -> Result<Arc<IdedExpr>, Flaws> {
    static CACHE: LazyLock<Mutex<HashMap<String, Arc<IdedExpr>>>> = LazyLock::new(Mutex::default);
    let known = lock(&CACHE).get(source).cloned();
    if let Some(expression) = known {
        return Ok(expression);
    }
    let flaw = |line, column, message| Flaws {
        source: source.to_owned(),
        flaws: vec![Flaw { line, column, message }],
    };
    let parsed = parse(source)
        .ok_or_else(|| flaw(1, 1, format!("Syntax error: the expression cannot be parsed: {source}")))?;
    let expression = Arc::new(parsed.map_err(|errors| {
        Flaws {
            source: source.to_owned(),
            flaws: errors
                .errors
                .into_iter()
                .map(|error| Flaw {
                    line: usize::try_from(error.pos.0).unwrap_or_default().max(1),
                    column: usize::try_from(error.pos.1).unwrap_or_default().max(1),
                    message: error.msg,
                })
                .collect(),
        }
    })?);
    let mut cache = lock(&CACHE);
    if cache.len() >= PARSED {
        cache.clear();
    }
    cache.insert(source.to_owned(), expression.clone());
    Ok(expression)
}

fn parse(source: &str) -> Option<Result<IdedExpr, ParseErrors>> {
    let parser = Parser::new().enable_optional_syntax(true);
    // The generated parser panics on a few malformed inputs instead of returning its errors.
    catch_unwind(AssertUnwindSafe(|| parser.parse(source))).ok()
}

/// Names the places of flaws, which are given by the ids of expressions.
///
/// The parser tells where its expressions stand only together with an error, so this has it meet one behind `source`.
pub(crate) fn place(source: &str, flaws: Vec<(u64, String)>) -> Flaws {
    const BEFORE: &str = "[";
    let info = parse(&format!("{BEFORE}{source}\n, has(0)]"))
        .and_then(Result::err)
        .and_then(|errors| errors.errors.into_iter().find_map(|error| error.source_info));
    let position = |id: u64| -> (usize, usize) {
        // The list around it has an id of its own, before all others.
        let start = info.as_ref().and_then(|info| info.offset_for(id + 1)).map_or(0, |(start, _)| start);
        let start = (start as usize).saturating_sub(BEFORE.len());
        let before: Vec<char> = source.chars().take(start).collect();
        let line_start = before.iter().rposition(|c| *c == '\n').map_or(0, |i| i + 1);
        (before.iter().filter(|c| **c == '\n').count() + 1, before.len() - line_start + 1)
    };
    let mut flaws: Vec<Flaw> = flaws
        .into_iter()
        .map(|(id, message)| {
            let (line, column) = position(id);
            Flaw { line, column, message }
        })
        .collect();
    flaws.sort_by_key(|flaw| (flaw.line, flaw.column));
    Flaws { source: source.to_owned(), flaws }
}
