//! `causeway connections`: the connections of this machine, by which way each goes and why, and what is wrong with the others.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use causeway_stowaway::Way;
use causeway_stowaway::laptop::State;
use serde::Serialize;
use tokio::time::timeout;

use crate::parts::answer::{Answer, FormatArg};
use crate::parts::connection::Connection;
use crate::parts::data_dir::DataDirArg;
use crate::parts::door;
use crate::parts::paint::{Paint, Tone};
use crate::parts::table::{Cell, table};

/// How long a daemon may take to answer.
const ANSWER: Duration = Duration::from_secs(3);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    data_dir: DataDirArg,
    #[command(flatten)]
    format: FormatArg,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut connections = Vec::new();
    for connection in Connection::all(&args.data_dir.path()?) {
        connections.push(Row::of(&connection).await);
    }
    args.format.print(&Connections { connections })?;
    Ok(ExitCode::SUCCESS)
}

/// The answer.
#[derive(Serialize)]
struct Connections {
    connections: Vec<Row>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    namespace: String,
    workstation: String,
    context: String,
    server: String,
    /// Its daemon; absent if none runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<i32>,
    connected: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    way: Option<Way>,
    #[serde(skip_serializing_if = "Option::is_none")]
    via: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replica: Option<String>,
    /// Seconds that it is up.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<u64>,
    /// Why this way, or why none.
    why: String,
    /// What is wrong with ways that are not used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    troubles: Vec<Trouble>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proxy: Option<SocketAddr>,
    directory: String,
}

#[derive(Serialize)]
struct Trouble {
    way: Way,
    error: String,
}

impl Row {
    async fn of(connection: &Connection) -> Self {
        let settings = &connection.settings;
        let holder = connection.holder().ok().flatten();
        let mut row = Self {
            namespace: settings.namespace.clone(),
            workstation: settings.workstation.clone(),
            context: settings.place.context.clone(),
            server: settings.server.clone(),
            pid: holder.as_ref().map(|holder| holder.pid),
            connected: false,
            way: None,
            via: None,
            replica: None,
            seconds: None,
            why: String::new(),
            troubles: Vec::new(),
            proxy: holder.as_ref().and_then(|holder| Some(holder.proxy.as_ref()?.address)),
            directory: connection.dir().display().to_string(),
        };
        if holder.is_none() {
            let ended = connection.ended().map(|why| why.trim().to_owned());
            row.why = format!(
                "{}; `causeway connect{}` connects again",
                ended.unwrap_or_else(|| "its process was ended".to_owned()),
                connection.flags()
            );
            return row;
        }
        let asked = async { Ok::<_, anyhow::Error>(door::Open::of(connection)?.visitor().state().await?) };
        match timeout(ANSWER, asked).await {
            Ok(Ok(state)) => row.take(&state),
            // It has no door before the cluster has signed its key.
            Ok(Err(_)) => "the cluster has not signed this machine's key yet".clone_into(&mut row.why),
            Err(_) => row.why = format!("its process does not answer; see {}", connection.log().display()),
        }
        row
    }

    fn take(&mut self, state: &State) {
        self.connected = state.connection.is_some();
        match &state.connection {
            Some(now) => {
                self.way = Some(now.way);
                self.via = Some(now.via.clone());
                self.replica = Some(now.replica.clone());
                self.seconds =
                    Some(SystemTime::now().duration_since(now.since).unwrap_or_default().as_secs());
                self.why.clone_from(&now.why);
            }
            None => self.why = state.complaint(),
        }
        let troubles = state
            .ways
            .iter()
            .filter_map(|way| way.error.as_ref().map(|error| Trouble { way: way.way, error: error.clone() }));
        self.troubles = troubles.collect();
    }
}

impl Answer for Connections {
    fn text(&self, paint: Paint) -> String {
        if self.connections.is_empty() {
            return "not connected to any cluster; `causeway connect` connects".to_owned();
        }
        let rows = self.connections.iter().map(|row| -> [Cell; 6] {
            let way = match (row.way, row.pid) {
                (Some(way), _) => Cell::toned(Tone::Good, way.to_string()),
                (None, Some(_)) => Cell::toned(Tone::Bad, "none yet"),
                (None, None) => Cell::toned(Tone::Bad, "down"),
            };
            [
                format!("{}/{}", row.namespace, row.workstation).into(),
                row.context.as_str().into(),
                way,
                row.seconds.map(age).unwrap_or_default().into(),
                row.proxy.map(|proxy| proxy.to_string()).unwrap_or_default().into(),
                row.why.as_str().into(),
            ]
        });
        let mut text = table(paint, ["WORKSTATION", "CONTEXT", "WAY", "FOR", "PROXY", "WHY"], rows);
        for row in self.connections.iter().filter(|row| row.connected) {
            for Trouble { way, error } in &row.troubles {
                let line = format!("\n{}/{}: not by {way}: {error}", row.namespace, row.workstation);
                text.push_str(&paint.tint(Tone::Faint, &line));
            }
        }
        text
    }
}

/// Seconds as people read them.
fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_table_says_by_which_way_and_why_not_by_others() {
        let row = |namespace: &str, pid: Option<i32>| Row {
            namespace: namespace.to_owned(),
            workstation: "alice".to_owned(),
            context: "lab".to_owned(),
            server: "https://x".to_owned(),
            pid,
            connected: false,
            way: None,
            via: None,
            replica: None,
            seconds: None,
            why: "its process was ended".to_owned(),
            troubles: Vec::new(),
            proxy: None,
            directory: "/d".to_owned(),
        };
        let mut up = row("shop", Some(7));
        let state: State = serde_json::from_value(json!({
            "connection": {"way": "PortForward", "via": "PortForward", "replica": "stowaway-1", "since": 0, "why": "no port is open"},
            "ways": [{"way": "Link", "error": "10.0.0.1:30744: refused", "failures": 3}],
        }))
        .unwrap();
        up.take(&state);
        let text = Connections { connections: vec![up, row("lab", None)] }.text(Paint::Plain);
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert!(
            lines[1].starts_with("shop/alice lab PortForward") && lines[1].ends_with("d no port is open"),
            "{text}"
        );
        assert_eq!(lines[2], "lab/alice lab down its process was ended");
        assert_eq!(lines[3], "shop/alice: not by Link: 10.0.0.1:30744: refused");
    }

    #[test]
    fn ages() {
        for (seconds, expected) in [(5, "5s"), (119, "119s"), (120, "2m"), (7200, "2h"), (200_000, "2d")] {
            assert_eq!(age(seconds), expected);
        }
    }
}
