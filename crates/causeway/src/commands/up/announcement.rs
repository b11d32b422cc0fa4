//! What `up` prints when all is ready: what runs, and where.

use std::path::Path;

use serde::Serialize;

use super::services::Services;
use super::{Args, node};
use crate::parts::answer::Answer;
use crate::parts::output::Output;
use crate::parts::paint::Paint;

/// Says what runs and where.
pub(super) fn announce(
    output: Output,
    url: &str,
    kubeconfig: &Path,
    dir: &Path,
    services: &Services,
    args: &Args,
) -> anyhow::Result<()> {
    let announcement = Announcement {
        kubeconfig: kubeconfig.display().to_string(),
        api: url.to_owned(),
        open: args.listen.ip().is_unspecified(),
        operator: !args.no_operator,
        node: (!args.no_node).then(node::name),
        services: services.to_string(),
        data_dir: dir.display().to_string(),
        in_memory: args.in_memory,
    };
    args.format.print_to(output, &announcement)
}

/// The answer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Announcement {
    kubeconfig: String,
    api: String,
    /// Whether every network of this machine can reach it.
    open: bool,
    operator: bool,
    /// The node's name; absent if none runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    services: String,
    data_dir: String,
    in_memory: bool,
}

impl Answer for Announcement {
    fn text(&self, _: Paint) -> String {
        let on = |is_on: bool| if is_on { "on" } else { "off" };
        let open = "\nopen      to every network of this machine, by --listen; 127.0.0.1 keeps it to the machine itself";
        let kept = if self.in_memory { " (objects in memory only)" } else { "" };
        [
            format!("export KUBECONFIG={}", self.kubeconfig),
            format!("api       {}{}", self.api, if self.open { open } else { "" }),
            format!("operator  {}", on(self.operator)),
            format!(
                "node      {}",
                self.node.as_ref().map_or("off".to_owned(), |name| format!("on ({name})"))
            ),
            format!("services  {}", self.services),
            format!("data      {}{kept}", self.data_dir),
            "ready".to_owned(),
        ]
        .join("\n")
    }
}
