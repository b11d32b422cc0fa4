//! The Helm chart in `deploy/chart`, and how it becomes objects without Helm: for `causeway install`, for the manifests in
//! `deploy/` that are made of it, and for OLM. A crate of its own because binary and chores share it.
//!
//! What is understood of Helm's templates is what the chart uses; a test holds the outcome to that of Helm itself.

#![warn(missing_docs)]

mod document;
mod schema;
mod template;
mod values;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

pub use document::Document;
pub use values::{set, with_files};

/// The label with the namespace of the installation that an object is part of.
pub const INSTALLED_IN: &str = "causeway.dev/installed-in";
/// Value of [`INSTALLED_IN`] on what lets tenants have installations of their own, which no installation takes with it: no namespace
/// can be called so.
pub const TENANTS: &str = "every_namespace";
/// The annotation of an operator's account with the namespaces that it serves, a JSON list, where these are not all.
pub const SERVED: &str = "causeway.dev/namespaces";

/// The files of the chart, as `cargo xtask crds` has listed them.
const FILES: &[(&str, &str)] = &include!("files.in");

/// What is installed where, as templates have it in `.Release`.
#[derive(Clone, Debug)]
pub struct Release {
    /// Its name; objects are labelled with it.
    pub name: String,
    /// Where it is.
    pub namespace: String,
    /// Who installs it, for the label `app.kubernetes.io/managed-by`.
    pub service: String,
}

/// Why a chart does not become objects.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The values are not what the chart takes.
    #[error("{}", .0.join("; "))]
    Values(Vec<String>),
    /// A file of values can't be read.
    #[error("{file}: {message}")]
    Yaml {
        /// Which one.
        file: String,
        /// What is wrong with it.
        message: String,
    },
    /// A template can't be carried out.
    #[error("{file}:{line}: {message}")]
    Template {
        /// Which one.
        file: String,
        /// Where in it.
        line: usize,
        /// What is wrong there.
        message: String,
    },
}

/// A chart: its files by their paths in it.
#[derive(Clone, Debug)]
pub struct Chart {
    files: BTreeMap<String, String>,
}

impl Chart {
    /// The one that this program was built with.
    pub fn own() -> Self {
        Self { files: FILES.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect() }
    }

    /// One of these files.
    pub fn of(files: BTreeMap<String, String>) -> Self {
        Self { files }
    }

    fn file(&self, path: &str) -> &str {
        self.files.get(path).map_or("", String::as_str)
    }

    fn yaml(&self, path: &str) -> Result<Value, Error> {
        document::parse(self.file(path))
            .map_err(|message| Error::Yaml { file: path.to_owned(), message })
            .map(|value| if value.is_null() { json!({}) } else { value })
    }

    /// The chart's own values with these over them.
    ///
    /// # Errors
    /// When they are not what the chart takes.
    pub fn values(&self, overrides: &Value) -> Result<Value, Error> {
        let merged = values::over(self.yaml("values.yaml")?, overrides);
        let schema: Value = serde_json::from_str(self.file("values.schema.json")).map_err(|error| {
            Error::Yaml { file: "values.schema.json".to_owned(), message: error.to_string() }
        })?;
        let problems = schema::problems(&schema, &merged);
        if problems.is_empty() { Ok(merged) } else { Err(Error::Values(problems)) }
    }

    /// What is to be applied, in the order in which it should be.
    ///
    /// # Errors
    /// When the values are not what the chart takes, or a template can't be carried out.
    pub fn render(&self, release: &Release, overrides: &Value) -> Result<Vec<Document>, Error> {
        let values = self.values(overrides)?;
        let chart = self.yaml("Chart.yaml")?;
        // As templates call them.
        let about = json!({
            "Name": chart["name"], "Version": chart["version"], "AppVersion": chart["appVersion"],
        });
        let templates: BTreeMap<&str, &str> = self
            .files
            .iter()
            .filter(|(path, _)| path.starts_with("templates/"))
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        let program = template::Program::parse(&templates)?;
        let is_data = |path: &str| !path.starts_with("templates/");
        let files: serde_json::Map<String, Value> = self
            .files
            .iter()
            .filter(|(path, _)| is_data(path))
            .map(|(path, text)| (path.clone(), json!(text)))
            .collect();
        let root = json!({
            "Values": values,
            "Chart": about,
            "Release": {"Name": release.name, "Namespace": release.namespace, "Service": release.service},
            template::FILES: files,
        });
        let mut documents = Vec::new();
        let is_yaml = |path: &&&str| Path::new(path).extension().is_some_and(|end| end == "yaml");
        for path in templates.keys().filter(is_yaml) {
            let text = program.run(path, &root)?;
            let found = document::split(&text)
                .map_err(|message| Error::Yaml { file: (*path).to_owned(), message })?;
            documents.extend(found);
        }
        documents.sort_by_key(Document::order);
        Ok(documents)
    }
}

#[cfg(test)]
mod tests;
