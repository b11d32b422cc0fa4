//! Go's templates, as far as the chart uses them: `if`, `with`, `range`, `define`, `include`, variables, pipelines, and the
//! functions of [`functions`].

mod functions;
mod parse;
mod run;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::Error;

/// Under which name of the root the chart's other files are, for `.Files.Get` and `.Files.Glob`.
pub(crate) const FILES: &str = "Files";

/// A piece of a template.
#[derive(Debug)]
enum Node {
    Text(String),
    Print(Pipeline),
    /// `$name := pipeline`, and `=` for one that is there.
    Assign {
        name: String,
        is_new: bool,
        value: Pipeline,
    },
    If {
        condition: Pipeline,
        then: Vec<Node>,
        otherwise: Vec<Node>,
    },
    With {
        value: Pipeline,
        then: Vec<Node>,
        otherwise: Vec<Node>,
    },
    Range {
        key: Option<String>,
        item: Option<String>,
        of: Pipeline,
        each: Vec<Node>,
        otherwise: Vec<Node>,
    },
}

/// Commands, each of which gets the outcome of the one before as its last argument.
#[derive(Debug)]
struct Pipeline {
    line: usize,
    commands: Vec<Vec<Operand>>,
}

#[derive(Debug)]
enum Operand {
    Literal(Value),
    /// `.a.b`; without names the dot itself.
    Field(Vec<String>),
    /// `$x.a`; without a name the root.
    Variable(String, Vec<String>),
    Function(String),
    Group(Pipeline),
}

/// Templates that can be run, by path or by the name that they were defined with.
#[derive(Debug, Default)]
pub(crate) struct Program {
    templates: BTreeMap<String, Template>,
}

#[derive(Debug)]
struct Template {
    /// The file that it is in.
    file: String,
    nodes: Vec<Node>,
}

impl Program {
    pub(crate) fn parse(texts: &BTreeMap<&str, &str>) -> Result<Self, Error> {
        let mut program = Self::default();
        for (file, text) in texts {
            let parsed = parse::parse(text).map_err(|(line, message)| Error::Template {
                file: (*file).to_owned(),
                line,
                message,
            })?;
            let all = parsed.defined.into_iter().chain([((*file).to_owned(), parsed.nodes)]);
            for (name, nodes) in all {
                program.templates.insert(name, Template { file: (*file).to_owned(), nodes });
            }
        }
        Ok(program)
    }

    /// What a template prints.
    pub(crate) fn run(&self, name: &str, root: &Value) -> Result<String, Error> {
        run::run(self, name, root)
    }
}

#[cfg(test)]
mod tests;
