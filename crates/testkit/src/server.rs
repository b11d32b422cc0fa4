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

/// A free port of the loopback.
const ANYWHERE: &str = "127.0.0.1:0";

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
    SHARED.get_or_init(|| lasting(&[]))
}

/// One that is never dropped, such as that of a static: it goes with the program, and its directory too. `args` follow `up`.
pub fn lasting(args: &[&str]) -> Server {
    let root = tempfile::tempdir().expect("a temporary directory").keep();
    let mut server = Server::start_in(&root, args);
    server.guard(true);
    show_log_on_panic(root.join("log"));
    server
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
        Self::launch(Path::new(program()), &root, Some(own), ANYWHERE, args)
    }

    /// Starts on a directory that the caller keeps, so that a later start finds what this one left.
    pub fn start_in(root: &Path, args: &[&str]) -> Self {
        Self::launch(Path::new(program()), root, None, ANYWHERE, args)
    }

    /// Starts again on such a directory, with the API where it was: pods that still run look for it there.
    pub fn start_again_in(root: &Path, args: &[&str]) -> Self {
        let log = std::fs::read_to_string(root.join("log")).expect("the log of the last start");
        let address = url_in(&log).trim_start_matches("https://").to_owned();
        Self::launch(Path::new(program()), root, None, &address, args)
    }

    /// The same, with another program than the one under test.
    pub fn start_program_in(program: &Path, root: &Path, args: &[&str]) -> Self {
        Self::launch(program, root, None, ANYWHERE, args)
    }

    fn launch(program: &Path, root: &Path, own: Option<TempDir>, listen: &str, args: &[&str]) -> Self {
        std::fs::create_dir_all(root.join("home")).expect("a home for kubectl");
        let log = File::create(root.join("log")).expect("a log file");
        let child = up_of(program, root, listen)
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
        url_in(&self.log()).to_owned()
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
        let made = kubectl.apply(&format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n"));
        // A test that shares the namespace may have been faster.
        if !made.stderr.contains("(AlreadyExists)") {
            made.ok();
        }
        kubectl
    }

    /// The same, of a namespace that the administrator trusts with the machine.
    pub fn trusted_namespace(&self, name: &str) -> Kubectl {
        let kubectl = self.namespace(name);
        kubectl.trust();
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

    /// Waits until it ends by itself.
    pub fn wait(&mut self) -> ExitStatus {
        eventually("the server ends", PATIENCE, || self.child.try_wait().expect("the child can be asked"))
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
        if matches!(self.child.try_wait(), Ok(None)) {
            self.stop();
        }
        let _ = self.guardian.kill();
        let _ = self.guardian.wait();
        if std::thread::panicking() {
            eprintln!("--- log of {}\n{}", self.root.display(), self.log());
            return;
        }
        // Whatever a test makes the operator do, it must have the right to on a cluster too.
        let log = self.log();
        let refused = |line: &&str| {
            let is_refusal = line.contains("cannot ") || line.contains("attempting to grant");
            line.contains("system:serviceaccount:causeway-system:causeway-operator") && is_refusal
        };
        if let Some(line) = log.lines().find(refused) {
            panic!("deploy/operator.yaml lacks a right that the operator needs: {line}");
        }
    }
}

fn url_in(log: &str) -> &str {
    let line = log.lines().find_map(|line| line.strip_prefix("api "));
    line.expect("the server says its address").trim()
}

/// The command that starts a control plane under `root`, on a free port.
pub fn up(root: &Path) -> Command {
    up_of(Path::new(program()), root, ANYWHERE)
}

fn up_of(program: &Path, root: &Path, listen: &str) -> Command {
    let mut command = Command::new(program);
    command.env_remove("CAUSEWAY_LOG").env("HOME", root.join("home"));
    // What a test finds must not depend on the machine; one that wants a runtime names it.
    command.env("CAUSEWAY_CONTAINER_RUNTIME", "none");
    command.args(["up", "--listen", listen, "--data-dir"]).arg(root.join("data"));
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
