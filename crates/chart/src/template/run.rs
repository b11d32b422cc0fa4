//! Nodes → text.

use serde_json::{Map, Value, json};

use super::{FILES, Node, Operand, Pipeline, Program, functions};
use crate::Error;

/// How deep templates include one another, at most.
const DEEPEST: usize = 50;

pub(super) fn run(program: &Program, name: &str, root: &Value) -> Result<String, Error> {
    let mut printed = String::new();
    run_template(program, name, root, 0, &mut printed).map_err(|wrong| match wrong.place {
        Some((file, line)) => Error::Template { file, line, message: wrong.message },
        None => Error::Template { file: name.to_owned(), line: 0, message: wrong.message },
    })?;
    Ok(printed)
}

/// What went wrong; where is known once it has passed the template that it happened in.
struct Wrong {
    place: Option<(String, usize)>,
    message: String,
}

impl From<String> for Wrong {
    fn from(message: String) -> Self {
        Self { place: None, message }
    }
}

fn run_template(
    program: &Program,
    name: &str,
    root: &Value,
    depth: usize,
    printed: &mut String,
) -> Result<(), Wrong> {
    let template = program.templates.get(name).ok_or_else(|| format!("there is no template {name:?}"))?;
    if depth > DEEPEST {
        return Err(format!("{name} includes itself for ever").into());
    }
    let mut run = Run { program, root, variables: Vec::new(), depth, file: &template.file };
    run.nodes(&template.nodes, root, printed)
}

struct Run<'a> {
    program: &'a Program,
    root: &'a Value,
    variables: Vec<(String, Value)>,
    depth: usize,
    file: &'a str,
}

impl Run<'_> {
    fn nodes(&mut self, nodes: &[Node], dot: &Value, printed: &mut String) -> Result<(), Wrong> {
        // What is declared in a block is gone after it.
        let outer = self.variables.len();
        for node in nodes {
            self.node(node, dot, printed)?;
        }
        self.variables.truncate(outer);
        Ok(())
    }

    fn node(&mut self, node: &Node, dot: &Value, printed: &mut String) -> Result<(), Wrong> {
        match node {
            Node::Text(text) => printed.push_str(text),
            Node::Print(value) => {
                let text = self.evaluate(value, dot).and_then(|value| Ok(functions::text(&value)?));
                printed.push_str(&text.map_err(|wrong| self.at(wrong, value.line))?);
            }
            Node::Assign { name, is_new, value } => {
                let found = self.evaluate(value, dot)?;
                let known = self.variables.iter_mut().rev().find(|(known, _)| known == name);
                match (is_new, known) {
                    (true, _) => self.variables.push((name.clone(), found)),
                    (false, Some((_, old))) => *old = found,
                    (false, None) => {
                        return Err(self.at(format!("${name} is not declared").into(), value.line));
                    }
                }
            }
            Node::If { condition, then, otherwise } => {
                let holds = functions::is_true(&self.evaluate(condition, dot)?);
                self.nodes(if holds { then } else { otherwise }, dot, printed)?;
            }
            Node::With { value, then, otherwise } => {
                let found = self.evaluate(value, dot)?;
                if functions::is_true(&found) {
                    self.nodes(then, &found, printed)?;
                } else {
                    self.nodes(otherwise, dot, printed)?;
                }
            }
            Node::Range { key, item, of, each, otherwise } => {
                let found = self.evaluate(of, dot)?;
                let entries = entries(found).map_err(|wrong| self.at(wrong.into(), of.line))?;
                if entries.is_empty() {
                    return self.nodes(otherwise, dot, printed);
                }
                for (index, value) in entries {
                    let outer = self.variables.len();
                    self.variables.extend(key.clone().map(|name| (name, index)));
                    self.variables.extend(item.clone().map(|name| (name, value.clone())));
                    self.nodes(each, &value, printed)?;
                    self.variables.truncate(outer);
                }
            }
        }
        Ok(())
    }

    fn at(&self, mut wrong: Wrong, line: usize) -> Wrong {
        wrong.place.get_or_insert_with(|| (self.file.to_owned(), line));
        wrong
    }

    fn evaluate(&self, pipeline: &Pipeline, dot: &Value) -> Result<Value, Wrong> {
        let mut before = None;
        for command in &pipeline.commands {
            let outcome = self.command(command, before, dot);
            before = Some(outcome.map_err(|wrong| self.at(wrong, pipeline.line))?);
        }
        Ok(before.unwrap_or_default())
    }

    fn command(&self, command: &[Operand], before: Option<Value>, dot: &Value) -> Result<Value, Wrong> {
        let Some((first, rest)) = command.split_first() else { return Ok(Value::Null) };
        let mut arguments = Vec::new();
        for operand in rest {
            arguments.push(self.operand(operand, dot)?);
        }
        arguments.extend(before);
        match first {
            Operand::Function(name) if name == "include" => self.include(arguments),
            Operand::Function(name) => Ok(functions::call(name, arguments)?),
            Operand::Field(path) => match file_function(path) {
                Some(function) => Ok(self.file(function, &arguments)?),
                None if arguments.is_empty() => self.operand(first, dot),
                None => Err(format!(".{} takes no arguments", path.join(".")).into()),
            },
            Operand::Variable(name, path) => match file_function(path).filter(|_| name.is_empty()) {
                Some(function) => Ok(self.file(function, &arguments)?),
                None if arguments.is_empty() => self.operand(first, dot),
                None => Err(format!("${name} takes no arguments").into()),
            },
            _ if arguments.is_empty() => self.operand(first, dot),
            _ => Err("only a function takes arguments".to_owned().into()),
        }
    }

    fn include(&self, arguments: Vec<Value>) -> Result<Value, Wrong> {
        let mut arguments = arguments.into_iter();
        let (Some(Value::String(name)), Some(context), None) =
            (arguments.next(), arguments.next(), arguments.next())
        else {
            return Err("include wants a name and a value".to_owned().into());
        };
        let mut printed = String::new();
        run_template(self.program, &name, &context, self.depth + 1, &mut printed)?;
        Ok(json!(printed))
    }

    fn operand(&self, operand: &Operand, dot: &Value) -> Result<Value, Wrong> {
        match operand {
            Operand::Literal(value) => Ok(value.clone()),
            Operand::Field(path) => Ok(descend(dot, path)?),
            Operand::Variable(name, path) if name.is_empty() => Ok(descend(self.root, path)?),
            Operand::Variable(name, path) => {
                let known = self.variables.iter().rev().find(|(known, _)| known == name);
                let (_, value) = known.ok_or_else(|| format!("${name} is not declared"))?;
                Ok(descend(value, path)?)
            }
            Operand::Function(name) => Ok(functions::call(name, Vec::new())?),
            Operand::Group(pipeline) => self.evaluate(pipeline, dot),
        }
    }

    /// `.Files.Get PATH` and `.Files.Glob PATTERN`, whose only star is at the last part of the path.
    fn file(&self, function: &str, arguments: &[Value]) -> Result<Value, String> {
        let [Value::String(pattern)] = arguments else {
            return Err(format!(".Files.{function} wants a path"));
        };
        let files = self.root[FILES].as_object().ok_or(".Files is not in this context: hand $ on")?;
        if function == "Get" {
            return Ok(files.get(pattern).cloned().unwrap_or_else(|| json!("")));
        }
        let (before, after) = pattern.split_once('*').ok_or(".Files.Glob wants a * in its pattern")?;
        let is_meant = |path: &str| {
            path.strip_prefix(before)
                .and_then(|rest| rest.strip_suffix(after))
                .is_some_and(|star| !star.contains('/'))
        };
        let found = files.iter().filter(|(path, _)| is_meant(path));
        Ok(Value::Object(found.map(|(path, text)| (path.clone(), text.clone())).collect::<Map<_, _>>()))
    }
}

fn file_function(path: &[String]) -> Option<&str> {
    match path {
        [files, function] if files == FILES => Some(function),
        _ => None,
    }
}

fn descend(value: &Value, path: &[String]) -> Result<Value, String> {
    let mut value = value;
    for step in path {
        value = match value {
            Value::Object(map) => map.get(step).unwrap_or(&Value::Null),
            Value::Null => return Err(format!("{step} is asked of something that is not there")),
            other => return Err(format!("{step} is asked of {other}, which has no fields")),
        };
    }
    Ok(value.clone())
}

/// Keys and values, maps by their keys.
fn entries(value: Value) -> Result<Vec<(Value, Value)>, String> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(list) => {
            Ok(list.into_iter().enumerate().map(|(index, one)| (json!(index), one)).collect())
        }
        Value::Object(map) => {
            let mut all: Vec<(String, Value)> = map.into_iter().collect();
            all.sort_by(|one, other| one.0.cmp(&other.0));
            Ok(all.into_iter().map(|(key, one)| (json!(key), one)).collect())
        }
        other => Err(format!("range over {other}: there is nothing in it")),
    }
}
