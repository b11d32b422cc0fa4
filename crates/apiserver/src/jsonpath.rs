//! The JSONPath of printer columns, selectable fields and rule paths: fields, quoted names, indices, wildcards and
//! equality filters. Parsed once, evaluated against many objects.

#[cfg(test)]
mod tests;

use serde_json::Value;

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    /// From the end when negative.
    Index(i64),
    Wildcard,
    /// `..name`: at any depth.
    Descend(String),
    Filter(Filter),
}

/// `[?(@.type=="Ready")]`, or `[?(@.type)]` for mere presence.
#[derive(Debug, Clone, PartialEq)]
struct Filter {
    path: Vec<Step>,
    comparison: Option<(Comparison, Value)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Why a path is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at position {position} of {path:?}")]
pub(crate) struct Error {
    pub path: String,
    pub position: usize,
    pub message: &'static str,
}

impl JsonPath {
    /// Accepts `.a.b`, `a.b`, `$.a`, `{.a}`, `['a.b/c']`, `.a\.b`, `[0]`, `[-1]`, `[*]`, `..a` and filters.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let trimmed = text.trim();
        let inner = trimmed.strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or(trimmed);
        let inner = inner.strip_prefix('$').unwrap_or(inner);
        let mut reader = Reader { text: inner, position: 0 };
        let steps = reader.steps(&[])?;
        Ok(Self { steps })
    }

    /// Every value that the path leads to, in the object's order.
    pub(crate) fn find<'v>(&self, object: &'v Value) -> Vec<&'v Value> {
        let mut found = Vec::new();
        walk(&self.steps, object, &mut found);
        found
    }

    /// The names along the path, when it consists of fields only.
    pub(crate) fn fields(&self) -> Option<Vec<&str>> {
        self.steps
            .iter()
            .map(|step| match step {
                Step::Field(name) => Some(name.as_str()),
                _ => None,
            })
            .collect()
    }
}

fn walk<'v>(steps: &[Step], value: &'v Value, found: &mut Vec<&'v Value>) {
    let Some((step, rest)) = steps.split_first() else {
        found.push(value);
        return;
    };
    match step {
        Step::Field(name) => {
            if let Some(child) = value.get(name) {
                walk(rest, child, found);
            }
        }
        Step::Index(index) => {
            let item = value.as_array().and_then(|items| {
                let index = if *index < 0 { items.len() as i64 + index } else { *index };
                items.get(usize::try_from(index).ok()?)
            });
            if let Some(item) = item {
                walk(rest, item, found);
            }
        }
        Step::Wildcard => children(value).for_each(|child| walk(rest, child, found)),
        Step::Descend(name) => {
            if let Some(child) = value.get(name) {
                walk(rest, child, found);
            }
            children(value).for_each(|child| walk(steps, child, found));
        }
        Step::Filter(filter) => {
            children(value).filter(|child| filter.accepts(child)).for_each(|child| walk(rest, child, found));
        }
    }
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(map) => Box::new(map.values()),
        _ => Box::new(std::iter::empty()),
    }
}

impl Filter {
    fn accepts(&self, item: &Value) -> bool {
        let mut found = Vec::new();
        walk(&self.path, item, &mut found);
        match &self.comparison {
            None => !found.is_empty(),
            Some((comparison, wanted)) => found.iter().any(|value| comparison.holds(value, wanted)),
        }
    }
}

impl Comparison {
    fn holds(self, left: &Value, right: &Value) -> bool {
        let order = match (left, right) {
            (Value::Number(l), Value::Number(r)) => l.as_f64().partial_cmp(&r.as_f64()),
            (Value::String(l), Value::String(r)) => Some(l.cmp(r)),
            (Value::Bool(l), Value::Bool(r)) => Some(l.cmp(r)),
            _ => None,
        };
        match self {
            Self::Equal => left == right || order.is_some_and(std::cmp::Ordering::is_eq),
            Self::NotEqual => left != right && !order.is_some_and(std::cmp::Ordering::is_eq),
            Self::Less => order.is_some_and(std::cmp::Ordering::is_lt),
            Self::LessOrEqual => order.is_some_and(std::cmp::Ordering::is_le),
            Self::Greater => order.is_some_and(std::cmp::Ordering::is_gt),
            Self::GreaterOrEqual => order.is_some_and(std::cmp::Ordering::is_ge),
        }
    }
}

struct Reader<'t> {
    text: &'t str,
    position: usize,
}

impl Reader<'_> {
    /// Steps up to the end or to one of `stops`, which is not consumed.
    fn steps(&mut self, stops: &[char]) -> Result<Vec<Step>, Error> {
        let mut steps = Vec::new();
        while let Some(c) = self.peek().filter(|c| !stops.contains(c)) {
            match c {
                '.' => {
                    self.position += 1;
                    match self.peek() {
                        Some('.') => {
                            self.position += 1;
                            steps.push(Step::Descend(self.name(stops)?));
                        }
                        // `.` alone is the object itself; `.['a']` is `['a']`.
                        None | Some('[') => {}
                        Some('*') => {
                            self.position += 1;
                            steps.push(Step::Wildcard);
                        }
                        Some(_) => steps.push(Step::Field(self.name(stops)?)),
                    }
                }
                '[' => {
                    self.position += 1;
                    steps.push(self.bracket()?);
                    self.expect(']', "expected ]")?;
                }
                // The leading dot may be left out.
                _ if steps.is_empty() && self.position == 0 => steps.push(Step::Field(self.name(stops)?)),
                _ => return Err(self.error("unexpected character")),
            }
        }
        Ok(steps)
    }

    fn bracket(&mut self) -> Result<Step, Error> {
        match self.peek() {
            Some('*') => {
                self.position += 1;
                Ok(Step::Wildcard)
            }
            Some('\'' | '"') => Ok(Step::Field(self.quoted()?)),
            Some('?') => {
                self.position += 1;
                self.expect('(', "expected (")?;
                let filter = self.filter()?;
                self.expect(')', "expected )")?;
                Ok(Step::Filter(filter))
            }
            _ => {
                let digits = self.take(|c| c == '-' || c.is_ascii_digit());
                digits
                    .parse()
                    .map(Step::Index)
                    .map_err(|_| self.error("expected a number, *, a quoted name or ?"))
            }
        }
    }

    fn filter(&mut self) -> Result<Filter, Error> {
        self.skip_spaces();
        self.expect('@', "expected @")?;
        let path = self.steps(&['=', '!', '<', '>', ')', ' '])?;
        self.skip_spaces();
        let operator = self.take(|c| "=!<>".contains(c));
        let comparison = match operator.as_str() {
            "" => None,
            "==" | "=" => Some(Comparison::Equal),
            "!=" => Some(Comparison::NotEqual),
            "<" => Some(Comparison::Less),
            "<=" => Some(Comparison::LessOrEqual),
            ">" => Some(Comparison::Greater),
            ">=" => Some(Comparison::GreaterOrEqual),
            _ => return Err(self.error("unknown comparison")),
        };
        self.skip_spaces();
        let comparison = match comparison {
            Some(comparison) => Some((comparison, self.literal()?)),
            None => None,
        };
        self.skip_spaces();
        Ok(Filter { path, comparison })
    }

    fn literal(&mut self) -> Result<Value, Error> {
        if matches!(self.peek(), Some('\'' | '"')) {
            return self.quoted().map(Value::from);
        }
        let word = self.take(|c| !matches!(c, ')' | ' '));
        serde_json::from_str(&word)
            .map_err(|_| self.error("expected a quoted string, a number, true or false"))
    }

    /// A field's name up to the next step; a backslash takes the next character as it is.
    fn name(&mut self, stops: &[char]) -> Result<String, Error> {
        let mut name = String::new();
        while let Some(c) = self.peek().filter(|c| !matches!(c, '.' | '[' | ']') && !stops.contains(c)) {
            self.position += c.len_utf8();
            if c == '\\' {
                let escaped = self.peek().ok_or_else(|| self.error("nothing follows the backslash"))?;
                self.position += escaped.len_utf8();
                name.push(escaped);
            } else {
                name.push(c);
            }
        }
        if name.is_empty() { Err(self.error("expected a field name")) } else { Ok(name) }
    }

    fn quoted(&mut self) -> Result<String, Error> {
        let quote = self.peek().ok_or_else(|| self.error("expected a quote"))?;
        self.position += quote.len_utf8();
        let mut text = String::new();
        loop {
            let c = self.peek().ok_or_else(|| self.error("the quoted name does not end"))?;
            self.position += c.len_utf8();
            if c == quote {
                return Ok(text);
            }
            if c == '\\' {
                let escaped = self.peek().ok_or_else(|| self.error("nothing follows the backslash"))?;
                self.position += escaped.len_utf8();
                text.push(escaped);
            } else {
                text.push(c);
            }
        }
    }

    fn take(&mut self, accept: impl Fn(char) -> bool) -> String {
        let rest = &self.text[self.position..];
        let end = rest.find(|c| !accept(c)).unwrap_or(rest.len());
        self.position += end;
        rest[..end].to_owned()
    }

    fn skip_spaces(&mut self) {
        self.take(|c| c == ' ');
    }

    fn peek(&self) -> Option<char> {
        self.text[self.position..].chars().next()
    }

    fn expect(&mut self, wanted: char, message: &'static str) -> Result<(), Error> {
        if self.peek() == Some(wanted) {
            self.position += wanted.len_utf8();
            Ok(())
        } else {
            Err(self.error(message))
        }
    }

    fn error(&self, message: &'static str) -> Error {
        Error { path: self.text.to_owned(), position: self.position, message }
    }
}
