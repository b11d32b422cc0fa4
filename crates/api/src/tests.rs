use super::*;
use serde_json::json;
#[test]
fn smoke() {
    for crd in crds() {
        println!("{}", serde_json::to_string_pretty(&crd).unwrap());
    }
    let _ = json!({});
}
