//! What stays when an installation is taken back: a new namespace where people have put something, and a new definition of whose kind
//! they have made something. Both would take it along.

use anyhow::bail;
use kube::api::{Api, DynamicObject, ListParams, PartialObjectMeta};
use kube::{Client, ResourceExt};

use crate::parts::installation::{Piece, is_missing, resource_of};
use crate::parts::refusal;
use crate::parts::strangers::strangers;

/// How many objects are named.
const NAMED: usize = 5;

/// Why something new stays, if it does. What is found of people's kinds is added to `peoples`: ask of definitions before namespaces.
pub(super) async fn why(
    client: &Client,
    piece: &Piece,
    ours: &[Piece],
    peoples: &mut Vec<Piece>,
) -> anyhow::Result<Option<String>> {
    match piece.kind() {
        "Namespace" => {
            let mut inside = strangers(client, &piece.name, ours).await?;
            let of_kinds = peoples.iter().filter(|one| one.namespace.as_ref() == Some(&piece.name));
            inside.extend(of_kinds.map(|one| format!("{} {}", one.kind(), one.name)));
            Ok((!inside.is_empty()).then(|| format!("{piece}, where somebody has put {}", inside.join(", "))))
        }
        "CustomResourceDefinition" => {
            let objects = of_kind(client, &piece.name).await?;
            let named: Vec<String> = objects.iter().take(NAMED).map(Piece::to_string).collect();
            let more = if objects.len() > NAMED { ", …" } else { "" };
            peoples.extend(objects);
            Ok((!named.is_empty())
                .then(|| format!("{piece}, of which somebody has made {}{more}", named.join(", "))))
        }
        _ => Ok(None),
    }
}

/// All objects of one of Causeway's kinds, by the name of its definition; none where it is not served yet.
async fn of_kind(client: &Client, definition: &str) -> anyhow::Result<Vec<Piece>> {
    let Some(crd) = causeway_api::crds().into_iter().find(|crd| crd.name_any() == definition) else {
        bail!("{definition} is no definition of Causeway's");
    };
    let resource = resource_of(&crd);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let list = match api.list_metadata(&ListParams::default()).await {
        Ok(list) => list.items,
        Err(error) if is_missing(&error) => Vec::new(),
        Err(error) => bail!("can't see whether there are {}: {}", resource.plural, refusal::words(&error)),
    };
    let piece = |one: &PartialObjectMeta<DynamicObject>| {
        Piece::named(&resource.api_version, &resource.kind, one.namespace().as_deref(), &one.name_any())
    };
    Ok(list.iter().map(piece).collect())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// A cluster with one ProxyServer, and nothing else in its namespaces; Infras may not be listed.
    fn client() -> Client {
        let service = tower::service_fn(async |request: Request<Body>| {
            let (code, answer) = match request.uri().path() {
                "/apis/causeway.dev/v1alpha1/proxyservers" => {
                    let px = json!({"metadata": {"namespace": "shop", "name": "px"}});
                    (
                        200,
                        json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": {}, "items": [px]}),
                    )
                }
                "/apis/causeway.dev/v1alpha1/infras" => {
                    (403, json!({"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403}))
                }
                "/api" | "/apis" => (
                    200,
                    json!({"apiVersion": "apidiscovery.k8s.io/v2", "kind": "APIGroupDiscoveryList", "metadata": {}, "items": []}),
                ),
                _ => (404, json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404})),
            };
            let answer = Body::from(answer.to_string().into_bytes());
            Ok::<_, Infallible>(Response::builder().status(code).body(answer).unwrap())
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn what_people_have_made_meanwhile_keeps_what_it_would_go_with() {
        let client = client();
        let mut peoples = Vec::new();
        for (version, kind, name, says) in [
            ("v1", "Namespace", "shop", None),
            ("v1", "ServiceAccount", "causeway-operator", None),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "dnsservers.causeway.dev", None),
            (
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                "proxyservers.causeway.dev",
                Some(
                    "CustomResourceDefinition proxyservers.causeway.dev, of which somebody has made ProxyServer shop/px",
                ),
            ),
            ("v1", "Namespace", "shop", Some("Namespace shop, where somebody has put ProxyServer px")),
            ("v1", "Namespace", "other", None),
        ] {
            let piece = Piece::named(version, kind, None, name);
            let kept = why(&client, &piece, &[], &mut peoples).await.unwrap();
            assert_eq!(kept.as_deref(), says, "{piece}");
        }
        // What can't be seen may be there.
        let infras =
            Piece::named("apiextensions.k8s.io/v1", "CustomResourceDefinition", None, "infras.causeway.dev");
        assert!(why(&client, &infras, &[], &mut peoples).await.is_err());
    }
}
