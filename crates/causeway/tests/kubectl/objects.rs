//! Manifests that several tests apply.

/// A ConfigMap; `data` is YAML in one line.
pub fn config_map(name: &str, data: &str) -> String {
    let data = if data.starts_with('{') { data.to_owned() } else { format!("{{{data}}}") };
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {data}\n")
}

/// A container of Causeway's own image that answers HTTP and says so in its log.
pub fn container(name: &str) -> String {
    format!("{{name: {name}, image: 'causeway.dev/causeway:1', args: [echo, --name, {name}]}}")
}

/// A pod of such containers.
pub fn pod(name: &str, containers: &[&str]) -> String {
    let containers: Vec<String> = containers.iter().map(|name| container(name)).collect();
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: {name}}}}}\nspec: {{terminationGracePeriodSeconds: 2, containers: [{}]}}\n",
        containers.join(", ")
    )
}

/// A Deployment of pods labelled `app: NAME`, with one container `echo`.
pub fn deployment(name: &str, replicas: u32) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, labels: {{app: {name}}}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      terminationGracePeriodSeconds: 2
      containers: [{}]
",
        container("echo")
    )
}
