//! The cluster and the namespace that a developer works in, chosen as kubectl chooses them: kubeconfig files, a context, and
//! its namespace. Without any of these it is the control plane on this machine, if one runs.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde::{Deserialize, Serialize};

use super::data_dir::{self, DataDirArg};
use causeway_base::near::did_you_mean;

/// The flags; flatten them into a command's arguments.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ContextArgs {
    #[command(flatten)]
    pub(crate) data_dir: DataDirArg,
    /// Kubeconfig of the cluster [default: the control plane on this machine if it runs, else ~/.kube/config].
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<OsString>,
    /// Context of the kubeconfig [default: its current one].
    #[arg(long, value_name = "CONTEXT")]
    context: Option<String>,
    /// Namespace to work in [default: that of the context, else `default`].
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: Option<String>,
}

/// Where a cluster is found again, by another process and later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Place {
    pub(crate) kubeconfig: Vec<PathBuf>,
    pub(crate) context: String,
}

/// A cluster that was chosen.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) place: Place,
    /// The API server's address.
    pub(crate) server: String,
    pub(crate) namespace: String,
    pub(crate) client: Client,
}

impl ContextArgs {
    pub(crate) async fn cluster(&self) -> anyhow::Result<Cluster> {
        let files = self.files()?;
        let read = read(&files)?;
        let context = match &self.context {
            Some(context) => context.clone(),
            None => read.current_context.clone().filter(|name| !name.is_empty()).with_context(|| {
                format!("{} has no current context; name one with --context", told(&files))
            })?,
        };
        let mut cluster = open(read, Place { kubeconfig: files, context }).await?;
        if let Some(namespace) = &self.namespace {
            cluster.namespace.clone_from(namespace);
        }
        Ok(cluster)
    }

    fn files(&self) -> anyhow::Result<Vec<PathBuf>> {
        if let Some(asked) = self.kubeconfig.as_ref().filter(|asked| !asked.is_empty()) {
            return absolute(asked);
        }
        let dir = self.data_dir.path()?;
        if self.context.is_none() && data_dir::holder(&dir)?.is_some() {
            return Ok(vec![data_dir::kubeconfig(&dir)]);
        }
        let usual = std::env::home_dir().map(|home| home.join(".kube/config"));
        match usual.filter(|path| path.exists()) {
            Some(usual) => Ok(vec![usual]),
            None => bail!(
                "no cluster is named: give its kubeconfig with --kubeconfig FILE or KUBECONFIG, or start one on this \
                 machine with `causeway up`"
            ),
        }
    }
}

impl Place {
    /// Opens it again.
    pub(crate) async fn open(&self) -> anyhow::Result<Cluster> {
        open(read(&self.kubeconfig)?, self.clone()).await
    }
}

/// The files in a value of `KUBECONFIG`; those that are not there are left out, as kubectl does.
fn absolute(value: &OsStr) -> anyhow::Result<Vec<PathBuf>> {
    let all: Vec<PathBuf> = std::env::split_paths(value).filter(|path| path != Path::new("")).collect();
    let there: Vec<PathBuf> = all.iter().filter(|path| path.exists()).cloned().collect();
    let used = if there.is_empty() { all } else { there };
    // The daemon has another working directory.
    let used = used
        .into_iter()
        .map(|path| std::path::absolute(&path).with_context(|| format!("can't use {}", path.display())));
    used.collect()
}

fn told(files: &[PathBuf]) -> String {
    files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn read(files: &[PathBuf]) -> anyhow::Result<Kubeconfig> {
    let mut all = Kubeconfig::default();
    for file in files {
        let one = Kubeconfig::read_from(file).with_context(|| format!("can't read {}", file.display()))?;
        all = all.merge(one).with_context(|| format!("{} does not fit the others", file.display()))?;
    }
    Ok(all)
}

async fn open(read: Kubeconfig, place: Place) -> anyhow::Result<Cluster> {
    if !read.contexts.iter().any(|known| known.name == place.context) {
        let known = read.contexts.iter().map(|known| known.name.as_str());
        let names: Vec<&str> = known.clone().collect();
        bail!(
            "{} has no context {}{}; it has: {}",
            told(&place.kubeconfig),
            place.context,
            did_you_mean(&place.context, known),
            if names.is_empty() { "none".to_owned() } else { names.join(", ") },
        );
    }
    let options = KubeConfigOptions { context: Some(place.context.clone()), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(read, &options)
        .await
        .with_context(|| format!("can't use context {} of {}", place.context, told(&place.kubeconfig)))?;
    let (server, namespace) =
        (config.cluster_url.to_string().trim_end_matches('/').to_owned(), config.default_namespace.clone());
    let client = Client::try_from(config).context("can't make a client")?;
    Ok(Cluster { place, server, namespace, client })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubeconfig(context: &str, namespace: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: {context}\n\
             clusters: [{{name: c-{context}, cluster: {{server: 'http://{context}.test:6443/'}}}}]\n\
             users: [{{name: u, user: {{token: t}}}}]\n\
             contexts: [{{name: {context}, context: {{cluster: c-{context}, user: u, namespace: {namespace}}}}}]\n"
        )
    }

    fn args(kubeconfig: &OsStr, context: Option<&str>, namespace: Option<&str>) -> ContextArgs {
        use clap::Parser as _;
        #[derive(clap::Parser)]
        struct Command {
            #[command(flatten)]
            args: ContextArgs,
        }
        let mut args = Command::parse_from(["x", "--kubeconfig", "none"]).args;
        args.kubeconfig = Some(kubeconfig.to_owned());
        args.context = context.map(ToOwned::to_owned);
        args.namespace = namespace.map(ToOwned::to_owned);
        args
    }

    #[tokio::test]
    async fn the_context_says_cluster_and_namespace_and_flags_come_first() {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("one"), kubeconfig("one", "shop")).unwrap();
        std::fs::write(path("two"), kubeconfig("two", "lab")).unwrap();
        let both = std::env::join_paths([path("one"), path("two"), path("missing")]).unwrap();

        let first = args(&both, None, None).cluster().await.unwrap();
        assert_eq!((&*first.server, &*first.namespace), ("http://one.test:6443", "shop"));
        assert_eq!(first.place.kubeconfig, [path("one"), path("two")]);
        let second = args(&both, Some("two"), Some("mine")).cluster().await.unwrap();
        assert_eq!((&*second.server, &*second.namespace), ("http://two.test:6443", "mine"));
        assert_eq!(second.place.open().await.unwrap().namespace, "lab");

        let error = args(&both, Some("tow"), None).cluster().await.err().unwrap().to_string();
        assert!(error.contains("has no context tow; did you mean two?; it has: one, two"), "{error}");
        let error = args(path("missing").as_os_str(), None, None).cluster().await.err().unwrap();
        assert!(format!("{error:#}").contains("missing"), "{error:#}");
    }
}
