//! The real kubectl, with a home and a kubeconfig of its own.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// kubectl in one namespace of one server.
pub struct Kubectl {
    kubeconfig: PathBuf,
    home: PathBuf,
    /// The namespace of every command; empty leaves it to the objects and the kubeconfig.
    pub namespace: String,
}

/// What one command did.
#[derive(Debug)]
pub struct Ran {
    command: String,
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Kubectl {
    pub fn new(kubeconfig: &Path, home: &Path, namespace: &str) -> Self {
        Self { kubeconfig: kubeconfig.to_owned(), home: home.to_owned(), namespace: namespace.to_owned() }
    }

    /// The command, to be run in a way of the caller's own.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command.env("KUBECONFIG", &self.kubeconfig).env("HOME", &self.home).env_remove("KUBECACHEDIR");
        if !self.namespace.is_empty() {
            command.args(["--namespace", &self.namespace]);
        }
        command.args(args);
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, args: &[&str]) -> Ran {
        finish(self.command(args).stdin(Stdio::null()))
    }

    /// Runs a command that must succeed; its standard output.
    pub fn ok(&self, args: &[&str]) -> String {
        self.run(args).ok()
    }

    /// Runs a command that must fail; its standard error.
    pub fn fails(&self, args: &[&str]) -> String {
        self.run(args).fails()
    }

    /// Runs a command with `input` to read; put `-f -` among `args`.
    pub fn with_input(&self, input: &str, args: &[&str]) -> Ran {
        feed(&mut self.command(args), input)
    }

    /// `apply -f -`.
    pub fn apply(&self, yaml: &str) -> Ran {
        self.with_input(yaml, &["apply", "-f", "-"])
    }

    /// Lets pods of the namespace have what reaches the machine; for administrators.
    pub fn trust(&self) {
        let namespace = if self.namespace.is_empty() { "default" } else { &self.namespace };
        let level = "pod-security.kubernetes.io/enforce=privileged";
        self.ok(&["label", "namespace", namespace, "--overwrite", level]);
    }

    /// Makes a Service of port 443 whose only endpoint is a port of this machine's loopback.
    pub fn loopback_service(&self, name: &str, port: u16) {
        let objects = format!(
            "apiVersion: v1
kind: Service
metadata: {{name: {name}}}
spec: {{ports: [{{port: 443, targetPort: {port}}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: {name}-1, labels: {{kubernetes.io/service-name: {name}}}}}
addressType: IPv4
ports: [{{name: '', port: {port}}}]
endpoints: [{{addresses: [127.0.0.1]}}]
"
        );
        self.apply(&objects).ok();
    }

    /// One value, by JSONPath without the braces: `.status.phase`.
    pub fn value(&self, object: &str, path: &str) -> String {
        self.ok(&["get", object, "-o", &format!("jsonpath={{{path}}}")])
    }
}

impl Ran {
    pub fn ok(self) -> String {
        assert!(self.code == Some(0), "should succeed: {self}");
        self.stdout
    }

    pub fn fails(self) -> String {
        assert!(self.code.is_some_and(|code| code != 0), "should fail: {self}");
        self.stderr
    }
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { command, code, stdout, stderr } = self;
        write!(f, "{command}\nexit code {code:?}\n--- stdout\n{stdout}\n--- stderr\n{stderr}")
    }
}

/// Runs any command to its end.
pub fn finish(command: &mut Command) -> Ran {
    let output = command.output().expect("the command starts");
    Ran {
        command: format!("{command:?}"),
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn feed(command: &mut Command, input: &str) -> Ran {
    let said = format!("{command:?}");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kubectl is installed (Debian: kubernetes-client)");
    let mut stdin = child.stdin.take().expect("its input is a pipe");
    // A command that refuses early may not read all of it.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().expect("its output can be read");
    Ran {
        command: said,
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
