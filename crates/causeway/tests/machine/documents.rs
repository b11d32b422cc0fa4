//! What docs/infra.md tells a newcomer to type works, word for word.

use std::path::Path;
use std::process::Command;

use causeway_testkit::kubectl::finish;
use causeway_testkit::server::{Server, program};

use crate::lan::{self, has_link};

#[test]
fn the_infra_of_the_documents_works_on_one_machine() {
    if !lan::leave_machine() {
        return;
    }
    let server = Server::start(&[]);
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(repository.join("docs/infra.md")).unwrap();
    let (_, chapter) = text.split_once("## On one machine").unwrap();
    let mut blocks = chapter.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let script = blocks.find(|block| block.contains("infra-one-machine.yaml")).unwrap();
    let programs = Path::new(program()).parent().unwrap().to_str().unwrap().to_owned();
    let mut shell = Command::new("bash");
    shell.args(["-e", "-x", "-c", script]).current_dir(repository);
    shell.env("PATH", format!("{programs}:{}", std::env::var("PATH").unwrap()));
    let ran = finish(shell.env("KUBECONFIG", server.kubeconfig()));
    let said = ran.ok();
    for line in ["192.168.100.4\n", "shop\nGET / HTTP/1.1\n", "nothing is wrong with Infra lab/lab"] {
        assert!(said.contains(line), "lacks {line:?}:\n{said}");
    }
    assert!(!has_link("lab0"), "nothing is left of it");
}
