//! What the README tells a newcomer to type works, word for word, on one machine.

use std::path::Path;
use std::process::Command;

use causeway_testkit::kubectl::{Ran, finish};
use causeway_testkit::server::{Server, program};

/// The commands of the block after the line that begins like this.
fn commands(after: &str) -> Vec<String> {
    let readme = std::fs::read_to_string(repository().join("README.md")).unwrap();
    let (_, rest) = readme.split_once(after).expect("the README has this line");
    let block = rest.split("```").nth(1).expect("a block follows");
    block.lines().filter_map(|line| line.strip_prefix("$ ").map(str::to_owned)).collect()
}

fn repository() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_next_step_after_the_demo_works_on_one_machine() {
    let server = Server::start(&[]);
    let programs = Path::new(program()).parent().unwrap().to_str().unwrap().to_owned();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
    let run = |line: &str| -> Ran {
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(repository()).env("PATH", &path);
        finish(command.env("KUBECONFIG", server.kubeconfig()))
    };
    let lines = commands("In a second terminal, with the line it printed");
    assert!(lines.len() >= 5, "{lines:?}");
    for line in lines {
        let ran = run(&line);
        assert_eq!(ran.code, Some(0), "{line}: {ran}");
        let expected = match line.as_str() {
            line if line.starts_with("curl") => "shop\nGET / HTTP/1.1\n",
            line if line.starts_with("causeway routes") => "1 of 1 ready",
            line if line.starts_with("causeway doctor") => "nothing is wrong",
            line if line.starts_with("causeway status") => "True",
            _ => "",
        };
        assert!(ran.stdout.contains(expected), "{line}: {ran}");
    }
    let ran = run("causeway status --check");
    assert_eq!(ran.code, Some(0), "everything that was asked for is ready: {ran}");
}

#[test]
fn every_sample_says_what_it_needs() {
    for sample in std::fs::read_dir(repository().join("deploy/samples")).unwrap() {
        let path = sample.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let head: Vec<&str> = text.lines().take_while(|line| line.starts_with('#')).collect();
        assert!(head.iter().any(|line| line.starts_with("# Needs ")), "{}", path.display());
    }
}
