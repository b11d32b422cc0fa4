//! Python programs of this folder.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use causeway_testkit::environment::python;

/// The command that runs one. Without Python or these modules there is none, and the test is skipped.
pub(crate) fn script(name: &str, modules: &str) -> Option<Command> {
    let mut command = Command::new(python(modules)?);
    // The tree of the sources stays as it is.
    command.env("PYTHONDONTWRITEBYTECODE", "1").arg(folder().join(name));
    Some(command)
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/front")
}

/// A WebSocket server that sends back what it gets. Killed if it is dropped.
pub(crate) struct Echo {
    child: Child,
    pub(crate) port: u16,
}

impl Echo {
    pub(crate) fn start() -> Option<Self> {
        let mut child =
            script("echo.py", "autobahn")?.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        Some(Self { child, port: line.trim().parse().unwrap() })
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
