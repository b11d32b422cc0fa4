//! Plans as people write them: those of the documents, and files that are none.

use std::path::Path;
use std::process::Command;

use causeway_ir::Plan;

/// What a command says of a plan, and whether it takes it.
fn ask(command: &[&str], plan: &str) -> (bool, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("plan.yaml");
    std::fs::write(&path, plan).unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_causeway"));
    let ran = program.args(command).arg("--config").arg(&path).output().unwrap();
    let said = [ran.stdout, ran.stderr].concat();
    let said = String::from_utf8(said).unwrap().replace(&path.display().to_string(), "plan.yaml");
    (ran.status.success(), said)
}

fn check(plan: &str) -> (bool, String) {
    ask(&["engine", "--check"], plan)
}

/// A server of it would run on; only what it refuses ends at once.
fn serve(plan: &str) -> (bool, String) {
    ask(&["xds", "--listen", "127.0.0.1:0"], plan)
}

fn document(name: &str) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    std::fs::read_to_string(docs.join(name)).unwrap()
}

/// The fenced blocks of a document that are marked so.
fn blocks(document: &str, mark: &str) -> Vec<String> {
    let fence = format!("```{mark}\n");
    let found = document.split(&fence).skip(1);
    found.map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn the_plans_of_the_documents_are_what_the_documents_say() {
    let (engine, envoy) = (document("engine.md"), document("envoy.md"));
    let fine = blocks(&engine, "yaml");
    assert_eq!(fine.len(), 1);
    let requests = blocks(&engine, "yaml of requests");
    assert_eq!(requests.len(), 5);
    for plan in fine.iter().chain(&requests).chain(&blocks(&envoy, "yaml refused by xds")) {
        let (fine, said) = check(plan);
        assert!(fine && !said.contains("warning"), "{plan}\n{said}");
    }
    for plan in blocks(&engine, "yaml not run yet") {
        let (fine, said) = check(&plan);
        assert!(!fine, "{said}");
        assert!(said.contains("clusters[0].transport.link: "), "{said}");
    }
    let refused = blocks(&envoy, "yaml refused by xds");
    assert_eq!(refused.len(), 1);
    let (fine, said) = serve(&refused[0]);
    assert!(!fine && said.contains("plan.yaml:5: listeners[0].protocol.udp.action.forward: Envoy"), "{said}");
}

#[test]
fn the_error_of_the_document_is_what_is_said() {
    let engine = document("engine.md");
    let plan = blocks(&engine, "yaml")[0].replacen("action: {forward: api}", "action: {forward: apl}", 1);
    let (fine, said) = check(&plan);
    let wanted = engine.lines().find(|line| line.starts_with("error: plan.yaml:")).unwrap();
    assert!(!fine && said.lines().any(|line| line == wanted), "{wanted}\n{said}");
}

#[test]
fn every_field_is_in_the_document() {
    fn keys(value: &serde_json::Value, found: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(fields) => {
                for (key, value) in fields {
                    found.push(key.clone());
                    keys(value, found);
                }
            }
            serde_json::Value::Array(items) => items.iter().for_each(|item| keys(item, found)),
            _ => {}
        }
    }
    let engine = document("engine.md");
    let plan: Plan = serde_saphyr::from_str(&blocks(&engine, "yaml")[0]).unwrap();
    let mut found = Vec::new();
    keys(&serde_json::to_value(&plan).unwrap(), &mut found);
    let tables: String = engine.lines().filter(|line| line.starts_with('|')).collect();
    for field in found {
        let named = tables.split(|c: char| !c.is_alphanumeric()).any(|word| word == field);
        assert!(named, "{field} is in no table");
    }
}

#[test]
fn a_file_that_is_no_plan_is_refused_with_words() {
    for (plan, words) in [
        ("", "plan.yaml is empty, which is not a plan"),
        ("# later\n", "plan.yaml is empty, which is not a plan"),
        ("listeners:\n", "plan.yaml:1: listeners: there is no value"),
        ("listeners:\n- name: a\n  sniff: tls\n", "plan.yaml:3: listeners[0].sniff: there is no such field"),
        ("clusters:\n- name: a\n- name: a\n", "plan.yaml:3: clusters[1].name: the name `a` is already"),
    ] {
        for (taken, said) in [check(plan), serve(plan)] {
            assert!(!taken && said.contains(words), "{plan:?}: {said}");
        }
    }
}

/// What becomes of open connections is no surprise to whoever asks before an upgrade.
#[test]
fn the_help_says_what_a_handover_does_to_open_connections() {
    let ran = Command::new(env!("CARGO_BIN_EXE_causeway")).args(["engine", "--help"]).output().unwrap();
    let help = String::from_utf8(ran.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    for said in ["--handover <PATH>", "stay with the old process", "drainTimeout"] {
        assert!(help.contains(said), "{said} in {help}");
    }
}
