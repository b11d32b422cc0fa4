//! What the operator decides where a `ProxyServer` leaves it open.

use causeway_api::{Engine, PodTemplate, ProxyServerSpec, UpdatePolicy, names};
use causeway_ir::Problem;

use crate::pod_template;

/// Defaults for every `ProxyServer`.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The engine where `spec.engine` is left out.
    pub engine: Engine,
    /// Envoy's image where `spec.proxyImage` is left out.
    pub proxy_image: String,
    /// This program's image where `spec.managerImage` is left out.
    pub manager_image: String,
    /// Further images that a ProxyServer may name: a whole reference, or the beginning of one with a `*` after it.
    pub allowed_images: Vec<String>,
    /// Bind each proxy's account to OpenShift's `nonroot-v2` security context constraints.
    pub openshift: bool,
    /// Backends in other namespaces need a ReferenceGrant there.
    pub require_grants: bool,
    /// What pods are given where `spec.podTemplate` leaves it open.
    pub pod_template: PodTemplate,
    /// When pods follow what the operator brings, where `spec.updatePolicy` is left out.
    pub update_policy: UpdatePolicy,
    /// ProxyServers that are updated at a time.
    pub updates_at_once: usize,
    /// Whether each namespace is served by itself: nothing is made, read or asked for in another one.
    pub is_confined: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            engine: Engine::Envoy,
            proxy_image: names::ENVOY_IMAGE.to_owned(),
            manager_image: names::own_image(env!("CARGO_PKG_VERSION")),
            allowed_images: Vec::new(),
            openshift: false,
            require_grants: true,
            pod_template: PodTemplate::default(),
            update_policy: UpdatePolicy::Automatic,
            updates_at_once: 4,
            is_confined: false,
        }
    }
}

impl Settings {
    /// What is wrong with the operator's own `podTemplate`, in words.
    pub fn pod_template_problems(&self) -> Vec<String> {
        pod_template::problems(&self.pod_template, "podTemplate").iter().map(ToString::to_string).collect()
    }

    /// What the pods of a spec are given.
    pub(crate) fn pod_template(&self, spec: &ProxyServerSpec) -> PodTemplate {
        spec.pod_template.clone().unwrap_or_default().over(&self.pod_template)
    }

    /// When the pods of a spec follow what the operator brings.
    pub(crate) fn update_policy(&self, spec: &ProxyServerSpec) -> UpdatePolicy {
        spec.update_policy.unwrap_or(self.update_policy)
    }

    /// What is wrong with the images of a spec. Who may create a ProxyServer may not thereby run any program with the
    /// account, and on OpenShift the constraints, of a proxy: an image is one of those that this operator uses itself, in
    /// any version, or was allowed by whoever runs the operator.
    pub(crate) fn image_problems(&self, spec: &ProxyServerSpec) -> Vec<Problem> {
        let named = [("spec.managerImage", &spec.manager_image), ("spec.proxyImage", &spec.proxy_image)];
        named.into_iter().filter_map(|(path, image)| self.image_problem(path, image.as_ref())).collect()
    }

    /// The same of one image.
    pub(crate) fn image_problem(&self, path: &str, image: Option<&String>) -> Option<Problem> {
        let image = image.filter(|image| !self.allows(image))?;
        Some(Problem {
            path: path.to_owned(),
            message: format!(
                "`{image}` is not one of the images that this operator runs: write {} or {} in any version, or have \
                 the operator started with --allow-image={image}",
                repository(&self.manager_image),
                repository(&self.proxy_image),
            ),
        })
    }

    fn allows(&self, image: &str) -> bool {
        [&self.manager_image, &self.proxy_image].iter().any(|own| repository(own) == repository(image))
            || self.allowed_images.iter().any(|allowed| match allowed.strip_suffix('*') {
                Some(front) => image.starts_with(front),
                None => image == allowed,
            })
    }
}

/// An image without its tag and digest.
fn repository(image: &str) -> &str {
    let named = image.split_once('@').map_or(image, |(named, _)| named);
    match named.rsplit_once(':') {
        // A colon before a slash is that of a registry's port.
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => named,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_operators_own_images_and_those_it_was_told_may_be_run() {
        let settings = Settings {
            manager_image: "registry.test:5000/team/causeway:1.2".into(),
            allowed_images: vec!["mirror.test/envoy/*".into(), "quay.test/one:1".into()],
            ..Settings::default()
        };
        for (image, allowed) in [
            ("registry.test:5000/team/causeway:2.0", true),
            ("registry.test:5000/team/causeway@sha256:0123", true),
            ("registry.test:5000/team/causeway", true),
            ("registry.test:5000/team/causeway-evil:1", false),
            ("registry.test/team/causeway:1.2", false),
            ("envoyproxy/envoy:v9", true),
            ("envoyproxy/envoy-evil:v9", false),
            ("mirror.test/envoy/any:1", true),
            ("mirror.test/other:1", false),
            ("quay.test/one:1", true),
            ("quay.test/one:12", false),
        ] {
            let spec = ProxyServerSpec { manager_image: Some(image.into()), ..ProxyServerSpec::default() };
            let problems = settings.image_problems(&spec);
            assert_eq!(problems.is_empty(), allowed, "{image}: {problems:?}");
            assert!(problems.iter().all(|problem| problem.path == "spec.managerImage"), "{problems:?}");
        }
    }
}
