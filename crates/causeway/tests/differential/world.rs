//! The two servers, and one family of requests sent to both.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use causeway_testkit::kubernetes::TestCluster;
use causeway_testkit::server::{self, Server};
use causeway_testkit::{deploy, eventually};
use serde_json::Value;

use crate::client::{Answer, Client};
use crate::difference::{Difference, between};
use crate::normal::normal;
use crate::table::{self, Differs, Family, Row, Until};

pub struct World {
    ours: Server,
    theirs: TestCluster,
}

/// One server as a family of requests meets it.
struct Side {
    client: Client,
    /// Saved from its answers, by name.
    values: BTreeMap<String, String>,
}

impl World {
    /// The one of all tests; none where there is no real Kubernetes.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<World>> = OnceLock::new();
        SHARED
            .get_or_init(|| {
                let theirs = TestCluster::start(0)?;
                install_kinds(&theirs);
                Some(Self { ours: server::lasting(&["--no-node", "--no-operator", "--no-services"]), theirs })
            })
            .as_ref()
    }

    pub fn theirs(&self) -> &TestCluster {
        &self.theirs
    }

    /// Sends a family's requests to both servers.
    ///
    /// # Panics
    /// When answers differ in a way that is not written down, or no longer differ in one that is.
    pub fn compare(&self, family: &str) {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let complaints = runtime.block_on(self.complaints(family));
        let text = complaints.concat();
        assert!(
            complaints.is_empty(),
            "{} answers of {family} are not as expected:\n{text}",
            complaints.len()
        );
    }

    async fn complaints(&self, family: &str) -> Vec<String> {
        let mut ours = Side::new(Client::new(&self.ours.kubeconfig()).await, family);
        let mut theirs = Side::new(Client::new(self.theirs.kubeconfig()).await, family);
        tokio::join!(ours.make_namespace(), theirs.make_namespace());
        let Family { rows, differs: of_all } = table::read(family);
        let (mut complaints, mut all_found) = (Vec::new(), Vec::new());
        for row in rows {
            let (our_answer, their_answer) = tokio::join!(ours.ask(&row), theirs.ask(&row));
            let mut found = between(&ours.normal(&row, &our_answer), &theirs.normal(&row, &their_answer));
            found.retain(|difference| !(row.unordered && difference.is_order));
            complaints.extend(complaint(&row, &of_all, &found));
            all_found.extend(found);
            ours.save(&row, &our_answer);
            theirs.save(&row, &their_answer);
        }
        complaints.extend(of_all.iter().filter_map(|differs| unseen(differs, &all_found)));
        complaints
    }
}

impl Side {
    fn new(client: Client, family: &str) -> Self {
        let values = BTreeMap::from([("ns".to_owned(), format!("differential-{family}"))]);
        Self { client, values }
    }

    /// With what the controllers put into it.
    async fn make_namespace(&self) {
        let create = Row {
            name: "the family's namespace".to_owned(),
            method: "POST".to_owned(),
            path: "/api/v1/namespaces".to_owned(),
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            body: r#"{"metadata": {"name": "{{ns}}"}}"#.to_owned(),
            ..Row::default()
        };
        let made = self.client.send(&create, &self.values).await;
        assert_eq!(made.status, 201, "{made:?}");
        for path in ["serviceaccounts/default", "configmaps/kube-root-ca.crt"] {
            let furnished = Row {
                name: path.to_owned(),
                method: "GET".to_owned(),
                path: format!("/api/v1/namespaces/{{{{ns}}}}/{path}"),
                until: Some(Until::Status(200)),
                ..Row::default()
            };
            self.ask(&furnished).await;
        }
    }

    /// The answer, or the first one that is waited for.
    async fn ask(&self, row: &Row) -> Answer {
        let Some(until) = &row.until else { return self.client.send(row, &self.values).await };
        eventually(&row.name, async || {
            let answer = self.client.send(row, &self.values).await;
            let found = match until {
                Until::Status(status) => answer.status == *status,
                Until::Header(name) => answer.headers.contains_key(name),
                Until::Value(pointer, wanted) => answer.body.pointer(pointer) == Some(wanted),
            };
            if found { Ok(answer) } else { Err(format!("{answer:?}")) }
        })
        .await
    }

    fn normal(&self, row: &Row, answer: &Answer) -> Value {
        normal(answer, row.pick.as_deref(), &self.values)
    }

    fn save(&mut self, row: &Row, answer: &Answer) {
        for (name, pointer) in &row.saves {
            let value = answer.body.pointer(pointer).map(|value| match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            });
            let value = value.unwrap_or_else(|| panic!("{}: nothing at {pointer} in {answer:?}", row.name));
            self.values.insert(name.clone(), value);
        }
    }
}

/// The kinds that the embedded server has from the start.
fn install_kinds(cluster: &TestCluster) {
    let of_server = Path::new(env!("CARGO_MANIFEST_DIR")).join("../apiserver");
    let dirs = [deploy("crds"), of_server.join("crds"), of_server.join("gateway-api")];
    let dirs = dirs.map(|dir| dir.display().to_string());
    let files = dirs.iter().flat_map(|dir| ["-f", dir]);
    let apply: Vec<&str> = ["apply", "--server-side"].into_iter().chain(files).collect();
    cluster.kubectl("").ok(&apply);
}

/// What is wrong with one request's answers; `of_all` are known differences of its whole family.
fn complaint(row: &Row, of_all: &[Differs], found: &[Difference]) -> Option<String> {
    let known = |difference: &&Difference| {
        row.differs.iter().chain(of_all).any(|differs| differs.covers(&difference.field))
    };
    let mut lines: Vec<String> =
        found.iter().filter(|difference| !known(difference)).map(ToString::to_string).collect();
    lines.extend(row.differs.iter().filter_map(|differs| unseen(differs, found)));
    (!lines.is_empty())
        .then(|| format!("\n{}: {} {}\n{}\n", row.name, row.method, row.path, lines.join("\n")))
}

/// A known difference that does not show.
fn unseen(differs: &Differs, found: &[Difference]) -> Option<String> {
    let seen = found.iter().any(|difference| differs.covers(&difference.field));
    (!seen)
        .then(|| format!("  {}\n    no longer differs: take {} away", differs.fields.join(" "), differs.name))
}
