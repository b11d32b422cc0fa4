//! The text of a template → its nodes.

use serde_json::{Value, json};

use super::{Node, Operand, Pipeline};

/// Where it is wrong, and how.
type Wrong = (usize, String);

pub(super) struct Parsed {
    pub(super) nodes: Vec<Node>,
    /// By the names of `define`.
    pub(super) defined: Vec<(String, Vec<Node>)>,
}

pub(super) fn parse(text: &str) -> Result<Parsed, Wrong> {
    let mut parser = Parser { pieces: pieces(text)?, next: 0, defined: Vec::new() };
    let (nodes, end) = parser.block()?;
    match end {
        None => Ok(Parsed { nodes, defined: parser.defined }),
        Some((line, word)) => Err((line, format!("{word} without a beginning"))),
    }
}

/// Text, or what is between `{{` and `}}`.
enum Piece {
    Text(String),
    Action(usize, String),
}

fn pieces(text: &str) -> Result<Vec<Piece>, Wrong> {
    let (mut pieces, mut rest, mut line) = (Vec::new(), text, 1);
    let mut trims = false;
    loop {
        let (before, after) =
            rest.split_once("{{").map_or((rest, None), |(before, after)| (before, Some(after)));
        let start = if trims { before.trim_start() } else { before };
        let Some(after) = after else {
            pieces.push(Piece::Text(start.to_owned()));
            return Ok(pieces);
        };
        let trims_before = after.starts_with("- ") || after.starts_with("-\n");
        pieces.push(Piece::Text(if trims_before { start.trim_end() } else { start }.to_owned()));
        line += before.matches('\n').count();
        let end = end_of(after).ok_or((line, "{{ without }}".to_owned()))?;
        let inner = &after[..end];
        rest = &after[end + 2..];
        let inner_line = line;
        line += inner.matches('\n').count();
        let inner = if trims_before { &inner[1..] } else { inner };
        trims = inner.ends_with(" -") || inner.ends_with("\n-") || inner.ends_with("*/-");
        let inner = if trims { &inner[..inner.len() - 1] } else { inner }.trim();
        if !inner.starts_with("/*") {
            pieces.push(Piece::Action(inner_line, inner.to_owned()));
        }
    }
}

/// Where the action ends, outside of its texts.
fn end_of(text: &str) -> Option<usize> {
    if text.trim_start_matches('-').trim_start().starts_with("/*") {
        let comment = text.find("*/")?;
        return text[comment..].find("}}").map(|end| comment + end);
    }
    let mut quote = None;
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match quote {
            None if text[at..].starts_with("}}") => return Some(at),
            None if matches!(letter, '"' | '`') => quote = Some(letter),
            Some('"') if letter == '\\' => {
                letters.next();
            }
            Some(open) if open == letter => quote = None,
            _ => {}
        }
    }
    None
}

struct Parser {
    pieces: Vec<Piece>,
    next: usize,
    defined: Vec<(String, Vec<Node>)>,
}

/// What closed a block: `end`, or `else` with what follows.
type End = (usize, String);

impl Parser {
    fn block(&mut self) -> Result<(Vec<Node>, Option<End>), Wrong> {
        let mut nodes = Vec::new();
        while let Some(piece) = self.pieces.get(self.next) {
            self.next += 1;
            let (line, action) = match piece {
                Piece::Text(text) => {
                    if !text.is_empty() {
                        nodes.push(Node::Text(text.clone()));
                    }
                    continue;
                }
                Piece::Action(line, action) => (*line, action.clone()),
            };
            let (word, rest) = action.split_once(char::is_whitespace).unwrap_or((&action, ""));
            match word {
                "end" | "else" => return Ok((nodes, Some((line, action)))),
                "define" => {
                    let name: String = serde_json::from_str(rest.trim())
                        .map_err(|_| (line, "define wants a name: define \"x\"".to_owned()))?;
                    let body = self.body(line)?;
                    if body.1.is_some() {
                        return Err((line, "define has no else".to_owned()));
                    }
                    self.defined.push((name, body.0));
                }
                "if" | "with" | "range" => nodes.push(self.construct(word, rest, line)?),
                _ => nodes.push(statement(&action, line)?),
            }
        }
        Ok((nodes, None))
    }

    /// The nodes up to `end` or `else`, and what followed that `else`.
    fn body(&mut self, line: usize) -> Result<(Vec<Node>, Option<End>), Wrong> {
        match self.block()? {
            (_, None) => Err((line, "it has no end".to_owned())),
            (nodes, Some((_, word))) if word == "end" => Ok((nodes, None)),
            (nodes, end) => Ok((nodes, end)),
        }
    }

    fn construct(&mut self, word: &str, rest: &str, line: usize) -> Result<Node, Wrong> {
        let (then, end) = self.body(line)?;
        let otherwise = match end {
            None => Vec::new(),
            Some((line, end)) => match end["else".len()..].trim() {
                "" => match self.body(line)? {
                    (nodes, None) => nodes,
                    (_, Some((line, _))) => return Err((line, "a second else".to_owned())),
                },
                more => {
                    let (word, rest) = more.split_once(char::is_whitespace).unwrap_or((more, ""));
                    vec![self.construct(word, rest, line)?]
                }
            },
        };
        match word {
            "if" => Ok(Node::If { condition: pipeline(rest, line)?, then, otherwise }),
            "with" => Ok(Node::With { value: pipeline(rest, line)?, then, otherwise }),
            "range" => {
                let (names, of) = rest.split_once(":=").map_or((None, rest), |(names, of)| (Some(names), of));
                let name = |text: &str| {
                    text.trim()
                        .strip_prefix('$')
                        .map(ToOwned::to_owned)
                        .ok_or((line, "a variable begins with $".to_owned()))
                };
                let (key, item) = match names.map(|names| names.split_once(',').ok_or(names)) {
                    None => (None, None),
                    Some(Err(item)) => (None, Some(name(item)?)),
                    Some(Ok((key, item))) => (Some(name(key)?), Some(name(item)?)),
                };
                Ok(Node::Range { key, item, of: pipeline(of, line)?, each: then, otherwise })
            }
            _ => Err((line, format!("else {word} is not understood"))),
        }
    }
}

fn statement(action: &str, line: usize) -> Result<Node, Wrong> {
    if let Some(rest) = action.strip_prefix('$') {
        let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let after = after.trim_start();
        let assigned = after.strip_prefix(":=").map(|value| (true, value));
        let assigned = assigned.or_else(|| after.strip_prefix('=').map(|value| (false, value)));
        if let Some((is_new, value)) = assigned {
            return Ok(Node::Assign { name: name.to_owned(), is_new, value: pipeline(value, line)? });
        }
    }
    Ok(Node::Print(pipeline(action, line)?))
}

fn pipeline(text: &str, line: usize) -> Result<Pipeline, Wrong> {
    let tokens = tokens(text, line)?;
    let mut tokens = tokens.into_iter().peekable();
    let all = commands(&mut tokens, line)?;
    if tokens.next().is_some() {
        return Err((line, format!("a ) too many in {text}")));
    }
    Ok(all)
}

#[derive(Debug, PartialEq)]
enum Token {
    Operand(Word),
    Open,
    Close,
    Pipe,
}

#[derive(Debug, PartialEq)]
enum Word {
    Literal(Value),
    Field(Vec<String>),
    Variable(String, Vec<String>),
    Name(String),
}

fn commands(
    tokens: &mut std::iter::Peekable<std::vec::IntoIter<Token>>,
    line: usize,
) -> Result<Pipeline, Wrong> {
    let mut commands = vec![Vec::new()];
    while let Some(token) = tokens.next_if(|token| *token != Token::Close) {
        let operand = match token {
            Token::Pipe => {
                commands.push(Vec::new());
                continue;
            }
            Token::Open => {
                let group = self::commands(tokens, line)?;
                if tokens.next() != Some(Token::Close) {
                    return Err((line, "( without )".to_owned()));
                }
                Operand::Group(group)
            }
            Token::Operand(Word::Literal(value)) => Operand::Literal(value),
            Token::Operand(Word::Field(path)) => Operand::Field(path),
            Token::Operand(Word::Variable(name, path)) => Operand::Variable(name, path),
            Token::Operand(Word::Name(name)) => Operand::Function(name),
            Token::Close => continue,
        };
        if let Some(last) = commands.last_mut() {
            last.push(operand);
        }
    }
    if commands.iter().any(Vec::is_empty) {
        return Err((line, "a command is missing".to_owned()));
    }
    Ok(Pipeline { line, commands })
}

fn tokens(text: &str, line: usize) -> Result<Vec<Token>, Wrong> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '(' | ')' | '|' => {
                tokens.push(match first {
                    '(' => Token::Open,
                    ')' => Token::Close,
                    _ => Token::Pipe,
                });
                1
            }
            '"' | '`' => {
                let end = end_of_text(rest, first).ok_or((line, "a text without its end".to_owned()))?;
                let quoted = &rest[..end];
                let value = if first == '`' {
                    json!(quoted.trim_matches('`'))
                } else {
                    serde_json::from_str(quoted).map_err(|_| (line, format!("{quoted} is no text")))?
                };
                tokens.push(Token::Operand(Word::Literal(value)));
                end
            }
            _ => {
                let end = rest.find(|letter: char| letter.is_whitespace() || "()|".contains(letter));
                let word = &rest[..end.unwrap_or(rest.len())];
                tokens.push(Token::Operand(read_word(word, line)?));
                word.len()
            }
        };
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

fn end_of_text(text: &str, quote: char) -> Option<usize> {
    let mut letters = text.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        if letter == quote {
            return Some(at + 1);
        }
        if letter == '\\' && quote == '"' {
            letters.next();
        }
    }
    None
}

fn read_word(word: &str, line: usize) -> Result<Word, Wrong> {
    let path = |text: &str| -> Vec<String> {
        text.split('.').filter(|part| !part.is_empty()).map(ToOwned::to_owned).collect()
    };
    Ok(match word {
        "true" => Word::Literal(json!(true)),
        "false" => Word::Literal(json!(false)),
        "nil" => Word::Literal(Value::Null),
        _ if word.starts_with('.') => Word::Field(path(word)),
        _ if word.starts_with('$') => {
            let (name, rest) = word[1..].split_once('.').unwrap_or((&word[1..], ""));
            Word::Variable(name.to_owned(), path(rest))
        }
        _ if word.starts_with(|letter: char| letter.is_ascii_digit() || letter == '-') => {
            Word::Literal(json!(word.parse::<i64>().map_err(|_| (line, format!("{word} is no number")))?))
        }
        _ if word.chars().all(|letter| letter.is_ascii_alphanumeric()) => Word::Name(word.to_owned()),
        _ => return Err((line, format!("{word} is not understood"))),
    })
}
