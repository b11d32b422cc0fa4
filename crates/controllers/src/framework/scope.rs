//! Kinds of either scope: an object in a namespace, or one of the whole cluster.

use kube::{
    Api, Client, Resource, ResourceExt,
    core::{ClusterResourceScope, NamespaceResourceScope},
};

/// How objects of a scope are reached.
pub trait Scope {
    /// Whether objects are in namespaces.
    const IS_NAMESPACED: bool;

    /// The objects of `namespace`, or all of them.
    fn api<K: Resource<DynamicType = (), Scope = Self>>(client: Client, namespace: Option<&str>) -> Api<K>;
}

impl Scope for NamespaceResourceScope {
    const IS_NAMESPACED: bool = true;

    fn api<K: Resource<DynamicType = (), Scope = Self>>(client: Client, namespace: Option<&str>) -> Api<K> {
        match namespace {
            Some(namespace) => Api::namespaced(client, namespace),
            None => Api::all(client),
        }
    }
}

impl Scope for ClusterResourceScope {
    const IS_NAMESPACED: bool = false;

    /// An object of the whole cluster is in no namespace, whichever is worked in.
    fn api<K: Resource<DynamicType = (), Scope = Self>>(client: Client, _: Option<&str>) -> Api<K> {
        Api::all(client)
    }
}

/// A kind of either scope, which controllers can serve.
pub trait Kind: Resource<DynamicType = (), Scope: Scope> + Sized {}

impl<K: Resource<DynamicType = (), Scope: Scope>> Kind for K {}

/// Where `object` is read and written.
pub(crate) fn api_of<K: Kind>(client: Client, object: &K) -> Api<K> {
    K::Scope::api(client, object.namespace().as_deref())
}
