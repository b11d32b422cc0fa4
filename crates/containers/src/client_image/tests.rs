use std::path::Path;

use super::*;
use crate::fake::{Fake, Fault, Operation};

fn options(directory: &Path) -> Options {
    Options { lock_dir: directory.to_owned(), ..Options::default() }
}

#[tokio::test]
async fn builds_once_and_finds_it_again() {
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::start(Kind::Docker);
    let runtime = fake.connect().await;
    let mut lines = Vec::new();
    let reference =
        ensure(&runtime, &options(directory.path()), |line| lines.push(line.to_owned())).await.unwrap();
    assert!(reference.starts_with("causeway-tunnel:"), "{reference}");
    assert_eq!(reference.len(), "causeway-tunnel:".len() + 12);
    assert!(lines.iter().any(|line| line.starts_with("Step 1")), "{lines:?}");
    assert_eq!(ensure(&runtime, &options(directory.path()), |_| {}).await.unwrap(), reference);
    assert_eq!(fake.count(Operation::Build), 1);
    assert_eq!(fake.count(Operation::Pull), 0, "nothing is pulled");
}

#[tokio::test]
async fn five_at_once_build_one() {
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::start(Kind::Podman);
    let runtime = fake.connect().await;
    let options = options(directory.path());
    let all = futures::future::join_all((0..5).map(|_| ensure(&runtime, &options, |_| {}))).await;
    let names: std::collections::BTreeSet<_> = all.into_iter().map(Result::unwrap).collect();
    assert_eq!(names.len(), 1);
    assert!(names.first().unwrap().starts_with("localhost/causeway-tunnel:"), "{names:?}");
    assert_eq!(fake.count(Operation::Build), 1);
}

#[tokio::test]
async fn a_failed_build_shows_its_output() {
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::start(Kind::Docker);
    let runtime = fake.connect().await;
    fake.fault(Operation::Build, Fault::stream_error("no space left on device"), 1);
    let error = ensure(&runtime, &options(directory.path()), |_| {}).await.unwrap_err();
    let said = error.report();
    assert!(said.contains("no space left on device") && said.contains("Step 1"), "{said}");
    ensure(&runtime, &options(directory.path()), |_| {})
        .await
        .expect("the next try is not in the way of the first");
}

#[tokio::test]
async fn refuses_a_runtime_of_another_architecture() {
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::start(Kind::Docker);
    fake.set_architecture("s390x");
    let error = ensure(&fake.connect().await, &options(directory.path()), |_| {}).await.unwrap_err();
    assert!(matches!(error, Error::Architecture { .. }), "{error}");
    assert!(error.is_permanent());
    assert_eq!(fake.count(Operation::Build), 0);
}

#[tokio::test]
async fn a_base_image_on_the_machine_is_not_pulled_and_changes_the_tag() {
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::start(Kind::Docker);
    let runtime = fake.connect().await;
    fake.add_image("base:1");
    let plain = ensure(&runtime, &options(directory.path()), |_| {}).await.unwrap();
    let with_base = Options { base_image: Some("base:1".into()), ..options(directory.path()) };
    let based = ensure(&runtime, &with_base, |_| {}).await.unwrap();
    assert_ne!(plain, based);
    assert_eq!(fake.count(Operation::Pull), 0);
    assert!(fake.dockerfiles().last().unwrap().starts_with("FROM base:1\n"));
}

#[tokio::test]
async fn a_base_image_that_cannot_be_had_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::start(Kind::Docker);
    fake.fault(Operation::Pull, Fault::error(500, "no route to host"), 1);
    let with_base = Options { base_image: Some("base:1".into()), ..options(directory.path()) };
    let error = ensure(&fake.connect().await, &with_base, |_| {}).await.unwrap_err();
    assert!(error.report().contains("base image base:1 is not on this machine"), "{}", error.report());
    assert!(!error.is_permanent(), "the network may come back");
}

#[test]
fn libraries_never_touch_those_of_a_base() {
    let dynamic = parts::Dynamic {
        loader: "/lib64/ld.so".into(),
        libraries: BTreeMap::from([("libc.so.6".to_owned(), PathBuf::from("/lib/libc.so.6"))]),
    };
    let parts = Parts::for_test("/causeway", Some(dynamic));
    let based = recipe("a:1", "00", &parts, Some("debian"));
    assert!(
        based.files.iter().skip(1).all(|file| file.path.starts_with("root/opt/causeway/lib/")),
        "{based:?}"
    );
    assert!(based.dockerfile.contains(
        r#"ENTRYPOINT ["/opt/causeway/lib/ld.so", "--library-path", "/opt/causeway/lib", "/causeway"]"#
    ));
    let alone = recipe("a:1", "00", &parts, None);
    let paths: Vec<_> = alone.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["root/causeway", "root/lib/libc.so.6", "root/lib64/ld.so"]);
    assert!(alone.dockerfile.contains(r#"ENTRYPOINT ["/causeway"]"#), "{}", alone.dockerfile);
}
