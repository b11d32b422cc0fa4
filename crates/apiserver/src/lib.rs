//! An embedded Kubernetes API server for one machine: objects, watches, patches, access control, custom resources,
//! kept on disk. A crate of its own so that the store and the schema engine stay away from everyone else.

pub mod access;
pub mod builtin;
pub mod catalog;
pub mod crd;
pub mod error;
pub mod jsonpath;
pub mod kubeconfig;
pub mod object;
pub mod patch;
pub mod pki;
pub mod resource;
pub mod schema;
pub mod serve;
pub mod store;
