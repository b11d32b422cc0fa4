use super::*;

fn refusal(text: &str) -> String {
    format!("{:#}", plan(Path::new("plan.yaml"), text).unwrap_err())
}

#[test]
fn an_empty_file_is_not_a_plan() {
    for text in ["", "\n\n", "# nothing yet\n", "---\n", "---\n# nothing\n...\n", "null", "~"] {
        assert!(refusal(text).contains("plan.yaml is empty, which is not a plan"), "{text:?}");
    }
    for text in ["[]", "a plan"] {
        assert!(refusal(text).starts_with("plan.yaml:1: write fields here"), "{text:?}: {}", refusal(text));
    }
    assert_eq!(plan(Path::new("plan.yaml"), "{}").unwrap(), Plan::default());
}

#[test]
fn a_key_without_a_value_is_refused_wherever_it_is() {
    for (text, place) in [
        ("listeners:\n", "plan.yaml:1: listeners: "),
        ("listeners: null\n", "plan.yaml:1: listeners: "),
        ("listeners: []\nclusters: ~\n", "plan.yaml:2: clusters: "),
        ("{\"listeners\": null}", "plan.yaml:1: listeners: "),
        ("clusters:\n- name: a\n  endpoints:\n", "plan.yaml:3: clusters[0].endpoints: "),
        (
            "listeners:\n- name: a\n  bind: 127.0.0.1:1\n  protocol:\n    tls:\n",
            "plan.yaml:5: listeners[0].protocol.tls: ",
        ),
        ("listeners:\n-\n", "plan.yaml:2: listeners[0]: "),
        ("limits:\n", "plan.yaml:1: limits: "),
        ("limits:\n  connections:\n", "plan.yaml:2: limits.connections: "),
        ("links:\n", "plan.yaml:1: links: "),
    ] {
        let message = refusal(text);
        assert!(message.starts_with(place) && message.contains("there is no value"), "{place}: {message}");
    }
}

/// Every value of the document's plan, one after another.
#[test]
fn no_field_of_the_document_can_be_without_its_value() {
    let page = include_str!("../../../../../docs/engine.md");
    let example = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let whole = serde_json::to_value(plan(Path::new("engine.md"), example).unwrap()).unwrap();
    let mut left = vec![String::new()];
    let mut tried = 0;
    while let Some(pointer) = left.pop() {
        let below = |key: String| format!("{pointer}/{key}");
        match whole.pointer(&pointer).unwrap() {
            serde_json::Value::Object(fields) => left.extend(fields.keys().cloned().map(below)),
            serde_json::Value::Array(items) => left.extend((0..items.len()).map(|n| below(n.to_string()))),
            _ => {}
        }
        let mut half = whole.clone();
        *half.pointer_mut(&pointer).unwrap() = serde_json::Value::Null;
        let message = refusal(&half.to_string());
        let words = if pointer.is_empty() { "is empty" } else { "there is no value" };
        assert!(message.contains(words), "{pointer}: {message}");
        tried += 1;
    }
    assert!(tried > 50, "{tried}");
}

#[test]
fn what_can_not_be_read_is_named_with_its_field_and_line() {
    let listener = |rest: &str| format!("listeners:\n- name: a\n  bind: 127.0.0.1:1\n  {rest}\n");
    for (text, message) in [
        (
            "listeners:\n- name: a\n  bnd: 127.0.0.1:1\n".to_owned(),
            "plan.yaml:3: listeners[0].bnd: there is no such field here: write name, bind, port, allowedSources, \
             acceptProxyProtocol or protocol",
        ),
        (
            "listeners:\n- name: a\n  bind: localhost\n".to_owned(),
            "plan.yaml:3: listeners[0].bind: `localhost` is not an address and port: write 0.0.0.0:443 or [::]:443",
        ),
        (
            "clusters:\n- name: a\n  idleTimeout: 5\n".to_owned(),
            "plan.yaml:3: clusters[0].idleTimeout: `5` is not a duration: write a number and a unit, like 250ms, 5s, 1h30m",
        ),
        ("clusters:\n- {}\n".to_owned(), "plan.yaml:2: clusters[0]: `name` is missing"),
        (
            "clusters: {}\n".to_owned(),
            "plan.yaml:1: clusters: write a list here, like [a, b], or [] for none",
        ),
        (
            "limits:\n  connectionsPerSource: -1\n".to_owned(),
            "plan.yaml:2: limits.connectionsPerSource: `-1` does not fit: write a whole number of at most 4294967295",
        ),
        (
            "limits: {connectionsPerSource: many}\n".to_owned(),
            "plan.yaml:1: limits.connectionsPerSource: `many` does not fit: write a whole number of at most 4294967295",
        ),
        (
            listener("protocol: {tcp: {name: r, action: {forward: c, refuse: close}}}"),
            "plan.yaml:4: listeners[0].protocol.tcp.action.forward: nothing can be written beside this: keep one of them",
        ),
        (
            listener("protocol: {tcp: {name: r, action: {send: c}}}"),
            "plan.yaml:4: listeners[0].protocol.tcp.action: `send` is not known here: write forward, terminate or refuse",
        ),
        (
            listener("acceptProxyProtocol: {from: []}"),
            "plan.yaml:4: listeners[0].acceptProxyProtocol.from: no network is in this list: leave the field out if \
             everybody is meant",
        ),
        ("drainTimeout: 1s\ndrainTimeout: 2s\n".to_owned(), "plan.yaml:2: `drainTimeout` is written twice"),
        (
            "{}\n---\n{}\n".to_owned(),
            "plan.yaml:3: a plan is one document: remove what follows `---`, or make it a file of its own",
        ),
    ] {
        assert_eq!(refusal(&text), message);
    }
    let cut_off = refusal("listeners:\n- name: a\n  protocol: {tcp:\n");
    assert!(cut_off.starts_with("plan.yaml:") && cut_off.lines().count() == 1, "{cut_off}");
}

#[test]
fn what_was_written_before_is_told_where_its_new_form_is() {
    for text in [
        "listeners:\n- {name: a, bind: '127.0.0.1:1', sniff: tls}\n",
        "listeners:\n- {name: a, bind: '127.0.0.1:1', routes: [{name: r, cluster: c}]}\n",
        "listeners:\n- {name: a, bind: '127.0.0.1:1', protocol: UDP}\n",
        "listeners:\n- {name: a, bind: '127.0.0.1:1', acceptProxyProtocol: true}\n",
        "listeners:\n- {name: a, bind: '127.0.0.1:1', protocol: {tls: {noServerName: {cluster: c}}}}\n",
    ] {
        let message = refusal(text);
        assert!(message.contains("the table in CHANGELOG.md"), "{message}");
    }
}

#[tokio::test]
async fn no_change_after_the_first_look_is_missed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("plan.yaml");
    std::fs::write(&path, "{}").unwrap();
    let time = std::fs::metadata(&path).unwrap().modified().unwrap();
    let mut follower = Follower::new(&path).unwrap();
    // Between the first look and the wait, of the same size and with the same time.
    let next = dir.path().join("next.yaml");
    std::fs::write(&next, "[]").unwrap();
    std::fs::File::options().write(true).open(&next).unwrap().set_modified(time).unwrap();
    std::fs::rename(&next, &path).unwrap();
    assert!(follower.changed().await);
}
