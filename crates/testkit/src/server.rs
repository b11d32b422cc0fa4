//! A running `causeway up` of the program that was just built, in a directory of its own.
//!
//! It ends when its value is dropped, and also when the tests end without dropping it (the one that tests share is a
//! static, and a test may be killed): a guardian holds the other end of a pipe and ends it then.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{LazyLock, OnceLock};

use tempfile::TempDir;

use crate::PATIENCE;
use crate::blocking::eventually;
use crate::kubectl::Kubectl;

/// The program under test: cargo builds it before the tests of its package, which are in the directory below it.
///
/// # Panics
/// When a test of another package asks for it before it was built.
pub fn program() -> &'static str {
    static PROGRAM: LazyLock<String> = LazyLock::new(|| {
        let test = std::env::current_exe().expect("the path of this program");
        let program = test.ancestors().nth(2).expect("a directory above").join("causeway");
        assert!(program.is_file(), "{} is not built yet", program.display());
        program.into_os_string().into_string().expect("a path in UTF-8")
    });
    &PROGRAM
}

/// One control plane and the directories around it.
pub struct Server {
    root: PathBuf,
    /// Removed at the end, unless the caller owns the directory.
    _own: Option<TempDir>,
    child: Child,
    guardian: Child,
}

/// The server that all tests of one binary share; each test takes a namespace of it.
pub fn shared() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(|| {
        let root = tempfile::tempdir().expect("a temporary directory").keep();
        let mut server = Server::start_in(&root, &[]);
        server.guard(true);
        show_log_on_panic(root.join("log"));
        server
    })
}

/// A test that fails says what the server said last.
fn show_log_on_panic(log: PathBuf) {
    const LINES: usize = 30;
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        before(panic);
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(LINES)..];
        eprintln!("--- end of the server's log\n{}", last.join("\n"));
    }));
}

impl Server {
    /// Starts in a new directory, which goes away with the value. `args` follow `up`.
    pub fn start(args: &[&str]) -> Self {
        let own = tempfile::tempdir().expect("a temporary directory");
        let root = own.path().to_owned();
        Self::launch(Path::new(program()), &root, Some(own), args)
    }

    /// Starts on a directory that the caller keeps, so that a later start finds what this one left.
    pub fn start_in(root: &Path, args: &[&str]) -> Self {
        Self::launch(Path::new(program()), root, None, args)
    }

    /// The same, with another program than the one under test.
    pub fn start_program_in(program: &Path, root: &Path, args: &[&str]) -> Self {
        Self::launch(program, root, None, args)
    }

    fn launch(program: &Path, root: &Path, own: Option<TempDir>, args: &[&str]) -> Self {
        std::fs::create_dir_all(root.join("home")).expect("a home for kubectl");
        let log = File::create(root.join("log")).expect("a log file");
        let child = up_of(program, root)
            .args(args)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle of the log"))
            .stderr(log)
            .spawn()
            .expect("the program starts");
        let guardian = guardian(child.id(), None);
        let mut server = Self { root: root.to_owned(), _own: own, child, guardian };
        eventually("the server says that it is ready", PATIENCE, || {
            if let Some(status) = server.child.try_wait().expect("the child can be asked") {
                panic!("`causeway up` ended with {status}:\n{}", server.log());
            }
            server.log().lines().any(|line| line == "ready")
        });
        server
    }

    /// Where objects, certificates and the kubeconfig are.
    pub fn data_dir(&self) -> PathBuf {
        self.root.join("data")
    }

    /// The kubeconfig of its administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.data_dir().join("kubeconfig")
    }

    /// `https://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        let log = self.log();
        let line = log.lines().find_map(|line| line.strip_prefix("api "));
        line.expect("the server says its address").trim().to_owned()
    }

    /// Process id of the control plane.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything that it printed.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.root.join("log")).unwrap_or_default()
    }

    /// kubectl as the administrator, in the namespace that objects say or `default`.
    pub fn kubectl(&self) -> Kubectl {
        Kubectl::new(&self.kubeconfig(), &self.root.join("home"), "")
    }

    /// kubectl in a namespace of that name, which is made now.
    pub fn namespace(&self, name: &str) -> Kubectl {
        let kubectl = Kubectl::new(&self.kubeconfig(), &self.root.join("home"), name);
        kubectl.apply(&format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n")).ok();
        kubectl
    }

    /// Ends it at once, as a crash would.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks it to stop and waits until it has.
    pub fn stop(&mut self) -> ExitStatus {
        signal(self.child.id(), "TERM");
        self.child.wait().expect("the child can be waited for")
    }

    /// Replaces the guardian by one that also removes the directory.
    fn guard(&mut self, remove: bool) {
        let next = guardian(self.child.id(), remove.then_some(&self.root));
        let mut last = std::mem::replace(&mut self.guardian, next);
        let _ = last.kill();
        let _ = last.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of {}\n{}", self.root.display(), self.log());
        }
        if matches!(self.child.try_wait(), Ok(None)) {
            self.stop();
        }
        let _ = self.guardian.kill();
        let _ = self.guardian.wait();
    }
}

/// The command that starts a control plane under `root`, on a free port.
pub fn up(root: &Path) -> Command {
    up_of(Path::new(program()), root)
}

fn up_of(program: &Path, root: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_remove("CAUSEWAY_LOG").env("HOME", root.join("home"));
    // What a test finds must not depend on the machine; one that wants a runtime names it.
    command.env("CAUSEWAY_CONTAINER_RUNTIME", "none");
    command.args(["up", "--listen", "127.0.0.1:0", "--data-dir"]).arg(root.join("data"));
    command
}

/// Sends a signal by name.
pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status();
    assert!(sent.expect("kill runs").success(), "can't send {name} to {pid}");
}

/// Waits for the end of its input, which is the end of this process, and then ends `pid`.
fn guardian(pid: u32, remove: Option<&PathBuf>) -> Child {
    let script = r#"read _; kill -TERM "$1" 2>/dev/null
        while kill -0 "$1" 2>/dev/null; do sleep 0.1; done
        [ -z "$2" ] || rm -rf "$2""#;
    Command::new("sh")
        .args(["-c", script, "guardian", &pid.to_string()])
        .arg(remove.map_or(Path::new(""), PathBuf::as_path))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("sh runs")
}
