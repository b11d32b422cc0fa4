//! `authorizer`: what an expression of a policy can ask about the rights of whoever makes the request, or of a
//! ServiceAccount.

use std::fmt;
use std::sync::Arc;

use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::Opaque;
use kube_cel::cel::{Context, ExecutionError, Value as Cel};

use crate::access::{Access, Attributes, User};
use crate::builtin::syntax;

/// Asks for one user.
#[derive(Clone)]
pub(crate) struct Authorizer {
    pub access: Arc<Access>,
    pub user: Arc<User>,
}

impl fmt::Debug for Authorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorizer").field("user", &self.user.name).finish_non_exhaustive()
    }
}

impl PartialEq for Authorizer {
    fn eq(&self, other: &Self) -> bool {
        self.user == other.user
    }
}

impl Eq for Authorizer {}

#[derive(Debug, Clone, PartialEq, Eq)]
struct PathCheck {
    authorizer: Authorizer,
    path: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct GroupCheck {
    authorizer: Authorizer,
    group: String,
}

/// May the user do something to this resource?
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResourceCheck {
    pub authorizer: Authorizer,
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Decision {
    allowed: bool,
    reason: String,
}

macro_rules! opaque {
    ($($ty:ty => $name:literal),+ $(,)?) => {
        $(impl Opaque for $ty {
            fn runtime_type_name(&self) -> &'static str {
                concat!("kubernetes.authorization.", $name)
            }
        }

        impl From<$ty> for Cel {
            fn from(value: $ty) -> Self {
                Self::Opaque(Arc::new(value))
            }
        })+
    };
}

opaque!(
    Authorizer => "Authorizer",
    PathCheck => "PathCheck",
    GroupCheck => "GroupCheck",
    ResourceCheck => "ResourceCheck",
    Decision => "Decision",
);

type Answer = Result<Cel, ExecutionError>;

pub(super) fn register(context: &mut Context<'_>) {
    context.add_function("path", path);
    context.add_function("group", group);
    context.add_function("serviceAccount", service_account);
    context.add_function("resource", resource);
    context.add_function("subresource", |This(this): This<Cel>, value: Arc<String>| {
        narrow(&this, |check| check.subresource.clone_from(&value))
    });
    context.add_function("namespace", |This(this): This<Cel>, value: Arc<String>| {
        narrow(&this, |check| check.namespace.clone_from(&value))
    });
    context.add_function("name", |This(this): This<Cel>, value: Arc<String>| {
        narrow(&this, |check| check.name.clone_from(&value))
    });
    // Roles do not know selectors: what is allowed with one is what is allowed without.
    context.add_function("fieldSelector", |This(this): This<Cel>, _: Arc<String>| narrow(&this, |_| {}));
    context.add_function("labelSelector", |This(this): This<Cel>, _: Arc<String>| narrow(&this, |_| {}));
    context.add_function("check", check);
    context.add_function("allowed", |This(this): This<Cel>| {
        take::<Decision>(&this).map(|decision| Cel::Bool(decision.allowed))
    });
    context.add_function("reason", |This(this): This<Cel>| {
        take::<Decision>(&this).map(|decision| Cel::String(Arc::new(decision.reason.clone())))
    });
    // A decision from what is stored here can't fail.
    context
        .add_function("errored", |This(this): This<Cel>| take::<Decision>(&this).map(|_| Cel::Bool(false)));
    context.add_function("error", |This(this): This<Cel>| {
        take::<Decision>(&this).map(|_| Cel::String(Arc::new(String::new())))
    });
}

fn take<T: Opaque>(value: &Cel) -> Result<&T, ExecutionError> {
    match value {
        Cel::Opaque(inner) => inner.downcast_ref::<T>().ok_or(ExecutionError::NoSuchOverload),
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

fn not_empty(function: &str, what: &str, text: &str) -> Result<(), ExecutionError> {
    if text.trim().is_empty() {
        return Err(ExecutionError::function_error(function, format!("{what} must not be empty")));
    }
    Ok(())
}

fn path(This(this): This<Cel>, path: Arc<String>) -> Answer {
    not_empty("path", "path", &path)?;
    Ok(PathCheck { authorizer: take::<Authorizer>(&this)?.clone(), path: (*path).clone() }.into())
}

fn group(This(this): This<Cel>, group: Arc<String>) -> Answer {
    Ok(GroupCheck { authorizer: take::<Authorizer>(&this)?.clone(), group: (*group).clone() }.into())
}

fn service_account(This(this): This<Cel>, namespace: Arc<String>, name: Arc<String>) -> Answer {
    let authorizer = take::<Authorizer>(&this)?;
    let invalid = |what: &str| {
        ExecutionError::function_error("serviceAccount", format!("Invalid service account {what}"))
    };
    if !syntax::subdomain(&name).is_empty() {
        return Err(invalid("name"));
    }
    if !syntax::label(&namespace).is_empty() {
        return Err(invalid("namespace"));
    }
    let user = User::service_account(&namespace, &name, "").authenticated();
    Ok(Authorizer { user: Arc::new(user), ..authorizer.clone() }.into())
}

fn resource(This(this): This<Cel>, resource: Arc<String>) -> Answer {
    not_empty("resource", "resource", &resource)?;
    let GroupCheck { authorizer, group } = take::<GroupCheck>(&this)?.clone();
    Ok(ResourceCheck {
        authorizer,
        group,
        resource: (*resource).clone(),
        subresource: String::new(),
        namespace: String::new(),
        name: String::new(),
    }
    .into())
}

fn narrow(check: &Cel, change: impl FnOnce(&mut ResourceCheck)) -> Answer {
    let mut check = take::<ResourceCheck>(check)?.clone();
    change(&mut check);
    Ok(check.into())
}

fn check(This(this): This<Cel>, verb: Arc<String>) -> Answer {
    let (authorizer, attributes) = if let Ok(PathCheck { authorizer, path }) = take(&this) {
        (authorizer, Attributes { verb: &verb, path: Some(path), ..Attributes::default() })
    } else {
        let check = take::<ResourceCheck>(&this)?;
        let attributes = Attributes {
            verb: &verb,
            group: &check.group,
            resource: &check.resource,
            subresource: &check.subresource,
            namespace: &check.namespace,
            name: &check.name,
            path: None,
        };
        (&check.authorizer, attributes)
    };
    let (allowed, reason) = authorizer.access.check(&authorizer.user, &attributes);
    Ok(Decision { allowed, reason }.into())
}
