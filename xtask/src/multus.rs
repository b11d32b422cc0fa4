//! The NetworkAttachmentDefinition of the network plumbing group, which Multus reads.

use anyhow::Context as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;

pub(crate) fn crd() -> anyhow::Result<CustomResourceDefinition> {
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "network-attachment-definitions.k8s.cni.cncf.io" },
        "spec": {
            "group": "k8s.cni.cncf.io",
            "scope": "Namespaced",
            "names": {
                "kind": "NetworkAttachmentDefinition",
                "plural": "network-attachment-definitions",
                "singular": "network-attachment-definition",
                "shortNames": ["net-attach-def"],
            },
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "additionalPrinterColumns": [
                    { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
                ],
                "schema": { "openAPIV3Schema": {
                    "description": "A network that pods can be attached to besides the pod network.",
                    "type": "object",
                    "properties": {
                        "apiVersion": { "type": "string" },
                        "kind": { "type": "string" },
                        "metadata": { "type": "object" },
                        "spec": {
                            "type": "object",
                            "properties": { "config": {
                                "description": "CNI configuration as JSON text.",
                                "type": "string",
                            } },
                        },
                    },
                } },
            }],
        },
    }))
    .context("reading the NetworkAttachmentDefinition's definition")
}
