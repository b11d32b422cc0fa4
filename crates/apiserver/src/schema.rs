//! What an object of one kind and version may look like: pruning, defaulting and validation by an OpenAPI v3
//! structural schema, with its CEL rules. Custom and built-in kinds use the same machinery.

mod node;

pub use node::{ListType, MapType, Node, Type};

/// A compiled schema.
#[derive(Debug, Default)]
pub struct Schema {
    pub root: Node,
}
