//! `causeway env` and `causeway files`.

use std::process::Command;

use causeway_testkit::kubectl::finish;
use serde_json::Value;

use crate::world::World;

#[test]
fn the_environment_of_a_workload_in_every_form() {
    let world = World::start();
    let service = world.service();
    let dotenv = world.causeway(&["env", "deploy/web"]).ok();
    for line in
        ["MODE=test", "GREETING=hello", "PASSWORD=\"it's secret\"", &format!("WEB_SERVICE_HOST={service}")]
    {
        assert!(dotenv.lines().any(|said| said == line), "lacks {line}:\n{dotenv}");
    }
    let json = world.causeway(&["env", "deploy/web", "-o", "json", "--no-service-links"]).ok();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["GREETING"], &json["PASSWORD"]), (&"hello".into(), &"it's secret".into()));
    assert!(json["POD_IP"].as_str().unwrap().starts_with("127."), "{json}");
    assert!(json.get("WEB_SERVICE_HOST").is_none());
    let shell = world.causeway(&["env", "deploy/web", "-o", "shell"]);
    assert!(shell.stderr.contains("left out: \"greeting.txt\": no name of a variable there"), "{shell}");
    let script = format!("{}printf '%s' \"$PASSWORD\"", shell.stdout);
    assert_eq!(finish(Command::new("sh").args(["-c", &script])).stdout, "it's secret");
    let file = world.file("web.env");
    world.causeway(&["env", "deploy/web", "--to", file.to_str().unwrap()]).ok();
    assert_eq!(std::fs::read_to_string(file).unwrap(), dotenv);
}

#[test]
fn the_files_of_a_workload_are_listed_and_copied() {
    let world = World::start();
    let list = world.json(&["files", "deploy/web"]);
    let paths: Vec<&str> =
        list["files"].as_array().unwrap().iter().map(|f| f["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["/etc/about/labels", "/etc/keys/password", "/etc/web/MODE", "/etc/web/greeting.txt"]);
    assert!(list["lacks"][0].as_str().unwrap().starts_with("/data: volume data is no ConfigMap"), "{list}");
    let to = tempfile::tempdir().unwrap();
    let dir = to.path().to_str().unwrap();
    let copied = world.causeway(&["files", "deploy/web", "/etc/web", "--to", dir]).ok();
    assert!(copied.contains("web/greeting.txt"), "{copied}");
    assert_eq!(std::fs::read_to_string(to.path().join("web/greeting.txt")).unwrap(), "hello\nworld\n");
    world.causeway(&["files", "deploy/web", "/etc/keys/password", "--to", dir]).ok();
    assert_eq!(std::fs::read_to_string(to.path().join("password")).unwrap(), "it's secret");
    let missing = world.causeway(&["files", "deploy/web", "/etc/wbe", "--to", dir]).fails();
    assert!(missing.contains("it sees nothing at /etc/wbe; it sees: /etc/about/labels"), "{missing}");
}
