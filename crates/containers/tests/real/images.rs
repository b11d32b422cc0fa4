//! Images: built from this program, on nothing and on a base, and failures that show why.

use std::collections::BTreeMap;

use causeway_containers::{Build, BuildFile, Content, ErrorKind, client_image};

use crate::{Bed, unique};

mod runs {
    crate::on_both!(a_base_image_has_effect, a_failed_build_tells_why, an_image_is_built_once);
}

async fn an_image_is_built_once(bed: &Bed) {
    let mut lines = Vec::new();
    let options = client_image::Options::default();
    let again =
        client_image::ensure(&bed.runtime, &options, |line| lines.push(line.to_owned())).await.unwrap();
    assert_eq!(again, bed.image);
    assert!(lines.is_empty(), "{lines:?}");
    let image = bed.runtime.image(&bed.image).await.unwrap().unwrap();
    assert_eq!(image.architecture, std::env::consts::ARCH);
    assert!(bed.runtime.image("causeway-no-such-image:1").await.unwrap().is_none());
}

async fn a_base_image_has_effect(bed: &Bed) {
    let base = format!("{}:1", unique("base"));
    let build = Build {
        reference: &base,
        dockerfile: "FROM scratch\nCOPY note /note\n".to_owned(),
        files: vec![BuildFile {
            path: "note".into(),
            content: Content::Bytes(b"from the base".to_vec()),
            mode: 0o644,
        }],
        labels: BTreeMap::new(),
    };
    bed.runtime.build(build, |_| {}).await.unwrap();
    let options =
        client_image::Options { base_image: Some(base.clone()), ..client_image::Options::default() };
    let image = client_image::ensure(&bed.runtime, &options, |_| {}).await.unwrap();
    assert_ne!(image, bed.image);
    let mut spec = bed.spec(&unique("based"), "file");
    spec.image = image.clone();
    spec.env.push(("FILE".to_owned(), "/note".to_owned()));
    let id = bed.runtime.create(&spec).await.unwrap();
    bed.runtime.start(&id).await.unwrap();
    assert_eq!(
        bed.runtime.wait(&id).await.unwrap(),
        0,
        "the base's file is there, and the program runs on it"
    );
    bed.runtime.remove(&id).await.unwrap();
    bed.runtime.remove_image(&image).await.unwrap();
    bed.runtime.remove_image(&image).await.expect("removing twice is fine");
}

async fn a_failed_build_tells_why(bed: &Bed) {
    let name = format!("{}:1", unique("broken"));
    let build = Build {
        reference: &name,
        dockerfile: "FROM scratch\nCOPY nothing-here /\n".to_owned(),
        files: vec![],
        labels: BTreeMap::new(),
    };
    let error = bed.runtime.build(build, |_| {}).await.unwrap_err();
    assert!(error.report().contains("nothing-here"), "{}", error.report());
    let missing = client_image::Options {
        base_image: Some("localhost:1/no-such-base:1".to_owned()),
        ..client_image::Options::default()
    };
    let error = client_image::ensure(&bed.runtime, &missing, |_| {}).await.unwrap_err();
    assert!(matches!(error, client_image::Error::BaseImage { .. }), "{}", error.report());
    assert_ne!(
        bed.runtime.image(&name).await.unwrap().map(|_| ErrorKind::NotFound),
        Some(ErrorKind::NotFound)
    );
}
