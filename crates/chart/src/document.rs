//! A stream of YAML documents, each of them an object.

use serde_json::Value;

/// An object to apply.
#[derive(Clone, Debug)]
pub struct Document {
    /// As the template has it, with its comments.
    pub text: String,
    /// What it says.
    pub object: Value,
}

/// Kinds in the order in which they are applied; all others come after them.
const ORDER: [&str; 14] = [
    "Namespace",
    "CustomResourceDefinition",
    "ServiceAccount",
    "ConfigMap",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "Service",
    "Deployment",
];

impl Document {
    pub(crate) fn order(&self) -> usize {
        let kind = self.kind();
        ORDER.iter().position(|known| *known == kind).unwrap_or(ORDER.len())
    }

    /// The object's kind.
    pub fn kind(&self) -> &str {
        self.object["kind"].as_str().unwrap_or_default()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// The namespace that it is in, if any.
    pub fn namespace(&self) -> Option<&str> {
        self.object["metadata"]["namespace"].as_str()
    }
}

pub(crate) fn parse(text: &str) -> Result<Value, String> {
    let is_blank = text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
    if is_blank {
        return Ok(Value::Null);
    }
    serde_saphyr::from_str(text).map_err(|error| error.to_string())
}

/// The documents of a text that are not empty.
pub(crate) fn split(text: &str) -> Result<Vec<Document>, String> {
    let mut texts = vec![String::new()];
    for line in text.lines() {
        if line.trim_end() == "---" {
            texts.push(String::new());
        } else if let Some(last) = texts.last_mut() {
            last.push_str(line);
            last.push('\n');
        }
    }
    let mut documents = Vec::new();
    for text in texts {
        let object = parse(&text)?;
        if !object.is_null() {
            documents.push(Document { text: text.trim().to_owned(), object });
        }
    }
    Ok(documents)
}
