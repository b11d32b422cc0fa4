//! The `pod-template-hash`: short, stable for equal templates, and safe in names.

use k8s_openapi::api::core::v1::PodTemplateSpec;

/// The label that tells the pods of one template from those of another.
pub(super) const POD_TEMPLATE_HASH: &str = "pod-template-hash";

const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Hash of a template; `collisions` is the Deployment's collision count.
pub(super) fn template_hash(template: &PodTemplateSpec, collisions: Option<i32>) -> String {
    let json = serde_json::to_vec(&without_hash(template)).expect("a pod template has only string keys");
    let mut hash = fnv32a(0x811c_9dc5, &json);
    if let Some(collisions) = collisions {
        hash = fnv32a(hash, &collisions.to_le_bytes());
    }
    // No vowels, so that no word comes out; the same alphabet as Kubernetes.
    hash.to_string().bytes().map(|byte| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()])).collect()
}

/// True when two templates differ in nothing but the hash label.
pub(super) fn same_template(a: &PodTemplateSpec, b: &PodTemplateSpec) -> bool {
    without_hash(a) == without_hash(b)
}

fn without_hash(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    if let Some(metadata) = &mut template.metadata {
        metadata.creation_timestamp = None;
        if let Some(labels) = &mut metadata.labels {
            labels.remove(POD_TEMPLATE_HASH);
        }
        metadata.labels = metadata.labels.take().filter(|labels| !labels.is_empty());
        metadata.annotations = metadata.annotations.take().filter(|annotations| !annotations.is_empty());
    }
    template
}

fn fnv32a(seed: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(seed, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(json: serde_json::Value) -> PodTemplateSpec {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn ignores_its_own_label_and_sees_everything_else() {
        let plain =
            template(serde_json::json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": []}}));
        let hashed = template(
            serde_json::json!({"metadata": {"labels": {"app": "a", "pod-template-hash": "x"}}, "spec": {"containers": []}}),
        );
        let other =
            template(serde_json::json!({"metadata": {"labels": {"app": "b"}}, "spec": {"containers": []}}));
        assert!(same_template(&plain, &hashed));
        assert_eq!(template_hash(&plain, None), template_hash(&hashed, None));
        assert!(!same_template(&plain, &other));
        assert_ne!(template_hash(&plain, None), template_hash(&other, None));
        assert_ne!(template_hash(&plain, None), template_hash(&plain, Some(1)));
    }

    #[test]
    fn fnv_matches_the_published_vectors() {
        assert_eq!(fnv32a(0x811c_9dc5, b""), 0x811c_9dc5);
        assert_eq!(fnv32a(0x811c_9dc5, b"a"), 0xe40c_292c);
        assert_eq!(fnv32a(0x811c_9dc5, b"foobar"), 0xbf9c_f968);
    }
}
