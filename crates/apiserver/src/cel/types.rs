//! The types of expressions, as Kubernetes' compiler names them.

use std::fmt;
use std::sync::Arc;

/// What is known of an expression's value before it is evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Type {
    /// Known only when it is evaluated.
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    List(Arc<Type>),
    Map(Arc<Type>, Arc<Type>),
    Optional(Arc<Type>),
    /// A type of a library, by its name.
    Opaque(&'static str),
    Object(&'static Object),
    /// Any one type, the same wherever the letter stands in an overload; also the items of a list that has none.
    Any(u8),
    /// Of an expression with a flaw, so that one flaw is told once.
    Flawed,
}

/// A type with fields.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub name: &'static str,
    pub fields: &'static [(&'static str, Field)],
}

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    Bool,
    Dyn,
    Int,
    String,
    Strings,
    StringMap,
    StringsMap,
    Timestamp,
    Object(&'static Object),
    Objects(&'static Object),
}

impl Field {
    pub(super) fn ty(self) -> Type {
        let list = |item| Type::List(Arc::new(item));
        let map = |value| Type::Map(Arc::new(Type::String), Arc::new(value));
        match self {
            Self::Bool => Type::Bool,
            Self::Dyn => Type::Dyn,
            Self::Int => Type::Int,
            Self::String => Type::String,
            Self::Strings => list(Type::String),
            Self::StringMap => map(Type::String),
            Self::StringsMap => map(list(Type::String)),
            Self::Timestamp => Type::Timestamp,
            Self::Object(object) => Type::Object(object),
            Self::Objects(object) => list(Type::Object(object)),
        }
    }
}

const KIND: Object = Object {
    name: "kubernetes.GroupVersionKind",
    fields: &[("group", Field::String), ("version", Field::String), ("kind", Field::String)],
};
const RESOURCE: Object = Object {
    name: "kubernetes.GroupVersionResource",
    fields: &[("group", Field::String), ("version", Field::String), ("resource", Field::String)],
};
const USER: Object = Object {
    name: "kubernetes.UserInfo",
    fields: &[
        ("username", Field::String),
        ("uid", Field::String),
        ("groups", Field::Strings),
        ("extra", Field::StringsMap),
    ],
};

/// The variable `request`.
pub(super) const REQUEST: Object = Object {
    name: "kubernetes.AdmissionRequest",
    fields: &[
        ("kind", Field::Object(&KIND)),
        ("resource", Field::Object(&RESOURCE)),
        ("subResource", Field::String),
        ("requestKind", Field::Object(&KIND)),
        ("requestResource", Field::Object(&RESOURCE)),
        ("requestSubResource", Field::String),
        ("name", Field::String),
        ("namespace", Field::String),
        ("operation", Field::String),
        ("userInfo", Field::Object(&USER)),
        ("dryRun", Field::Bool),
        ("options", Field::Dyn),
    ],
};

const NAMESPACE_META: Object = Object {
    name: "kubernetes.NamespaceMetadata",
    fields: &[
        ("name", Field::String),
        ("generateName", Field::String),
        ("namespace", Field::String),
        ("labels", Field::StringMap),
        ("annotations", Field::StringMap),
        ("UID", Field::String),
        ("creationTimestamp", Field::Timestamp),
        ("deletionGracePeriodSeconds", Field::Int),
        ("deletionTimestamp", Field::Timestamp),
        ("generation", Field::Int),
        ("resourceVersion", Field::String),
        ("finalizers", Field::Strings),
    ],
};
const NAMESPACE_SPEC: Object =
    Object { name: "kubernetes.NamespaceSpec", fields: &[("finalizers", Field::Strings)] };
const NAMESPACE_CONDITION: Object = Object {
    name: "kubernetes.NamespaceCondition",
    fields: &[
        ("status", Field::String),
        ("type", Field::String),
        ("lastTransitionTime", Field::Timestamp),
        ("message", Field::String),
        ("reason", Field::String),
    ],
};
const NAMESPACE_STATUS: Object = Object {
    name: "kubernetes.NamespaceStatus",
    fields: &[("conditions", Field::Objects(&NAMESPACE_CONDITION)), ("phase", Field::String)],
};

/// The variable `namespaceObject`.
pub(super) const NAMESPACE: Object = Object {
    name: "kubernetes.Namespace",
    fields: &[
        ("metadata", Field::Object(&NAMESPACE_META)),
        ("spec", Field::Object(&NAMESPACE_SPEC)),
        ("status", Field::Object(&NAMESPACE_STATUS)),
    ],
};

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dyn | Self::Any(_) => "dyn",
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Timestamp => "timestamp",
            Self::Duration => "duration",
            Self::List(item) => return write!(f, "list({item})"),
            Self::Map(key, value) => return write!(f, "map({key}, {value})"),
            Self::Optional(inner) => return write!(f, "optional_type({inner})"),
            Self::Opaque(name) => name,
            Self::Object(object) => object.name,
            Self::Flawed => "!error!",
        })
    }
}

impl Type {
    /// Whether values of it are objects, which `null` can stand for.
    fn is_nullable(&self) -> bool {
        matches!(
            self,
            Self::Null | Self::Timestamp | Self::Duration | Self::Opaque(_) | Self::Object(_) | Self::Flawed
        )
    }

    /// What both are, as far as that is known; `None` if they can't be the same.
    pub(super) fn join(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Any(_) | Self::Flawed, known) | (known, Self::Any(_) | Self::Flawed) => {
                Some(known.clone())
            }
            (Self::Dyn, _) | (_, Self::Dyn) => Some(Self::Dyn),
            (Self::Null, known) | (known, Self::Null) if known.is_nullable() => Some(known.clone()),
            (Self::List(a), Self::List(b)) => Some(Self::List(Arc::new(a.join(b)?))),
            (Self::Optional(a), Self::Optional(b)) => Some(Self::Optional(Arc::new(a.join(b)?))),
            (Self::Map(k, v), Self::Map(l, w)) => Some(Self::Map(Arc::new(k.join(l)?), Arc::new(v.join(w)?))),
            (a, b) if a == b => Some(a.clone()),
            _ => None,
        }
    }

    /// Whether a value of this type can be given where `self` is taken; the letters of `self` are noted in `letters`.
    pub(super) fn takes(&self, given: &Self, letters: &mut [Option<Self>; 4]) -> bool {
        let unknown = matches!(given, Self::Dyn | Self::Any(_) | Self::Flawed);
        match (self, given) {
            (Self::Any(letter), _) => {
                let slot = &mut letters[usize::from(*letter)];
                let joined = slot.as_ref().map_or_else(|| Some(given.clone()), |known| known.join(given));
                joined.is_some_and(|joined| {
                    *slot = Some(joined);
                    true
                })
            }
            (Self::List(a), Self::List(b)) | (Self::Optional(a), Self::Optional(b)) => a.takes(b, letters),
            (Self::Map(k, v), Self::Map(l, w)) => k.takes(l, letters) && v.takes(w, letters),
            (Self::List(a) | Self::Optional(a), _) if unknown => a.takes(&Self::Dyn, letters),
            (Self::Map(k, v), _) if unknown => k.takes(&Self::Dyn, letters) && v.takes(&Self::Dyn, letters),
            (Self::Dyn, _) => true,
            (known, Self::Null) => known.is_nullable(),
            (a, b) => unknown || a == b,
        }
    }

    /// With what `letters` stand for.
    pub(super) fn filled(&self, letters: &[Option<Self>; 4]) -> Self {
        let fill = |inner: &Arc<Self>| Arc::new(inner.filled(letters));
        match self {
            Self::Any(letter) => letters[usize::from(*letter)].clone().unwrap_or(Self::Dyn),
            Self::List(item) => Self::List(fill(item)),
            Self::Optional(inner) => Self::Optional(fill(inner)),
            Self::Map(key, value) => Self::Map(fill(key), fill(value)),
            other => other.clone(),
        }
    }
}
