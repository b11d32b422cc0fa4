//! Where in an object a check stands. A path lives on the stack of the walk and becomes text only when there is
//! something to report.

use std::fmt::Write;

/// A place in an object, linked to its parent.
#[derive(Debug)]
pub(super) enum Path<'a> {
    Root,
    /// A declared field: `.name`.
    Field(&'a Path<'a>, &'a str),
    /// A key of a map.
    Key(&'a Path<'a>, &'a str),
    /// An item of a list.
    Index(&'a Path<'a>, usize),
}

impl Path<'_> {
    /// With map keys as further fields, as the schema checks of Kubernetes show them: `spec.labels.app`.
    pub(super) fn dotted(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, false);
        text
    }

    /// With map keys in brackets, as the CEL rules of Kubernetes show them: `spec.labels[app]`.
    pub(super) fn keyed(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, true);
        text
    }

    fn write(&self, text: &mut String, brackets: bool) {
        match self {
            Self::Root => {}
            Self::Key(parent, key) if brackets => {
                parent.write(text, brackets);
                let _ = write!(text, "[{key}]");
            }
            Self::Field(parent, name) | Self::Key(parent, name) => {
                parent.write(text, brackets);
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(name);
            }
            Self::Index(parent, index) => {
                parent.write(text, brackets);
                let _ = write!(text, "[{index}]");
            }
        }
    }
}
