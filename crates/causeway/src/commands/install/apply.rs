//! Objects of the chart → the cluster, and back to what was there before.

use std::time::Duration;

use anyhow::{Context, bail};
use causeway_api::names;
use causeway_base::Backoff;
use causeway_chart::Document;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::kept;
use crate::commands::check::Line;
use crate::parts::installation::{self, Piece, Scope};
use crate::parts::refusal;

const SECTION: &str = "what would be applied";
const FIELD_MANAGER: &str = names::INSTALLER;

fn parameters() -> PatchParams {
    PatchParams::apply(FIELD_MANAGER).force()
}

/// What the API server would not take, asked without a change. What is in a namespace that is not there yet can't be asked about.
pub(super) async fn refusals(client: &Client, documents: &[Document]) -> anyhow::Result<Vec<Line>> {
    let mut lines = Vec::new();
    for document in documents {
        let piece = Piece::of(document);
        if let Some(namespace) = &piece.namespace {
            let there = namespace_piece(documents, namespace);
            if let Some(there) = there
                && there.get(client).await?.is_none()
            {
                continue;
            }
        }
        let dry = PatchParams { dry_run: true, ..parameters() };
        let outcome = piece.api(client).patch(&piece.name, &dry, &Patch::Apply(&document.object)).await;
        // Nothing is known of the rights in a role that is to be made; whether it may be was asked.
        let waits_for_role =
            |error: &kube::Error| installation::is_missing(error) && role_of(documents, document);
        if let Err(error) = outcome
            && !waits_for_role(&error)
        {
            let cure = "mend what it says; values of the chart are in docs/install.md";
            lines.push(Line::fail(SECTION, format!("{piece} is refused: {}", refusal::words(&error)), cure));
        }
    }
    Ok(lines)
}

/// Whether the role that a binding names is among these.
fn role_of(documents: &[Document], binding: &Document) -> bool {
    let role = &binding.object["roleRef"];
    let is_it = |one: &&Document| {
        role["kind"] == one.kind() && role["name"] == one.name() && one.namespace() == binding.namespace()
    };
    documents.iter().any(|one| is_it(&one))
}

/// Applies an object. A binding may come sooner than the API server has seen the role that it names.
async fn put(client: &Client, piece: &Piece, object: &Value) -> Result<DynamicObject, kube::Error> {
    let (api, patch) = (piece.api(client), Patch::Apply(object));
    let mut retries = RETRY.retries();
    for _ in 0..TRIES {
        match api.patch(&piece.name, &parameters(), &patch).await {
            Err(error) if piece.kind() == "RoleBinding" && installation::is_missing(&error) => {
                tokio::time::sleep(retries.next_delay()).await;
            }
            outcome => return outcome,
        }
    }
    api.patch(&piece.name, &parameters(), &patch).await
}

fn namespace_piece(documents: &[Document], namespace: &str) -> Option<Piece> {
    let found = documents.iter().find(|one| one.kind() == "Namespace" && one.name() == namespace);
    found.map(Piece::of)
}

/// What was applied, and what was there in its place.
#[derive(Default)]
pub(super) struct Applied {
    done: Vec<(Piece, Option<DynamicObject>, bool)>,
}

impl Applied {
    /// Applies all of them in their order.
    pub(super) async fn all(&mut self, client: &Client, documents: &[Document]) -> anyhow::Result<()> {
        for document in documents {
            let piece = Piece::of(document);
            let before = piece.get(client).await?;
            let content = before.as_ref().map(content);
            // Noted before it is written: an answer that is lost may have been a yes.
            self.done.push((piece.clone(), before, false));
            let after = put(client, &piece, &document.object).await;
            let after = after.map_err(|error| anyhow::anyhow!("{}", refusal::words(&error)));
            let after = after.with_context(|| format!("can't apply {piece}"))?;
            if let Some(last) = self.done.last_mut() {
                last.2 = content.as_ref() != Some(&self::content(&after));
            }
        }
        Ok(())
    }

    pub(super) fn created(&self) -> usize {
        self.done.iter().filter(|(_, before, _)| before.is_none()).count()
    }

    pub(super) fn changed(&self) -> usize {
        self.done.iter().filter(|(_, before, changed)| before.is_some() && *changed).count()
    }

    /// Makes it as it was: what is new goes, what was changed gets what it had. What people have put into a new namespace, or made
    /// of a new kind, keeps these; that is what is said.
    pub(super) async fn take_back(&self, client: &Client) -> anyhow::Result<Vec<String>> {
        let (mut failed, mut left) = (Vec::new(), Vec::new());
        let ours: Vec<Piece> = self.done.iter().map(|(piece, ..)| piece.clone()).collect();
        // Definitions come before namespaces here, as `kept` asks for it: they were applied after these.
        let mut peoples = Vec::new();
        for (piece, before, _) in self.done.iter().rev() {
            let outcome = match before {
                None => match kept::why(client, piece, &ours, &mut peoples).await {
                    Ok(None) => piece.delete(client).await,
                    Ok(Some(why)) => {
                        left.push(why);
                        Ok(())
                    }
                    Err(error) => Err(error),
                },
                Some(before) => restore(client, piece, before).await,
            };
            failed.extend(outcome.err().map(|error| format!("{error:#}")));
        }
        if failed.is_empty() { Ok(left) } else { bail!("{}", failed.join("; ")) }
    }
}

/// Between two tries, when somebody has changed an object meanwhile: those that have a status are changed all the time.
const RETRY: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));
const TRIES: usize = 10;

async fn restore(client: &Client, piece: &Piece, before: &DynamicObject) -> anyhow::Result<()> {
    let mut wanted = before.clone();
    if let Value::Object(fields) = &mut wanted.data {
        fields.remove("status");
    }
    let mut retries = RETRY.retries();
    for _ in 0..TRIES {
        let Some(now) = piece.get(client).await? else { return Ok(()) };
        if content(&now) == content(before) {
            return Ok(());
        }
        wanted.metadata.resource_version = now.resource_version();
        match piece.api(client).replace(&piece.name, &PostParams::default(), &wanted).await {
            Ok(_) => return give_fields_back(client, piece, before).await,
            Err(error) if refusal::is_conflict(&error) => tokio::time::sleep(retries.next_delay()).await,
            Err(error) => bail!("can't put {piece} back: {}", refusal::words(&error)),
        }
    }
    bail!("can't put {piece} back: somebody changes it all the time")
}

/// Whose fields they were: what is written by replacing is somebody else's than what is applied, and no later installation could take
/// it away.
async fn give_fields_back(client: &Client, piece: &Piece, before: &DynamicObject) -> anyhow::Result<()> {
    let patch = Patch::Merge(json!({"metadata": {"managedFields": before.metadata.managed_fields}}));
    match piece.api(client).patch(&piece.name, &PatchParams::default(), &patch).await {
        Ok(_) => Ok(()),
        Err(error) if installation::is_missing(&error) => Ok(()),
        Err(error) => bail!("can't give the fields of {piece} back: {}", refusal::words(&error)),
    }
}

/// What people decide of an object: not its status, nor what the API server counts.
fn content(object: &DynamicObject) -> Value {
    let mut content = object.data.clone();
    if let Value::Object(fields) = &mut content {
        fields.remove("status");
        fields.insert("labels".to_owned(), json!(object.metadata.labels));
        fields.insert("annotations".to_owned(), json!(object.metadata.annotations));
    }
    content
}

/// Removes what an earlier `install` made and the values no longer ask for, and says what, and whether that is all. Namespaces
/// stay: others may have put something there.
pub(super) async fn prune(
    client: &Client,
    namespace: &str,
    scope: &Scope,
    wanted: &[Piece],
) -> (Vec<Piece>, anyhow::Result<()>) {
    let mut pruned = Vec::new();
    let outcome = async {
        for piece in installation::find_in(client, namespace, scope).await?.pieces {
            if piece.kind() == "Namespace" || wanted.contains(&piece) {
                continue;
            }
            let Some(found) = piece.get(client).await? else { continue };
            let is_ours =
                found.labels().get(names::LABEL_MANAGED_BY).map(String::as_str) == Some(names::INSTALLER);
            if is_ours {
                piece.delete(client).await?;
                pruned.push(piece);
            }
        }
        Ok(())
    }
    .await;
    (pruned, outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_is_told_from_what_is_new() {
        let piece = |name: &str| {
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "a"}});
            Piece::of(&Document { text: String::new(), object })
        };
        let before: DynamicObject = serde_json::from_value(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b", "resourceVersion": "1"}}),
        )
        .unwrap();
        let applied = Applied {
            done: vec![
                (piece("a"), None, true),
                (piece("b"), Some(before.clone()), true),
                (piece("c"), Some(before), false),
            ],
        };
        assert_eq!((applied.created(), applied.changed()), (1, 1));
    }
}
