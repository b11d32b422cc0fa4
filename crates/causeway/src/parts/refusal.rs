//! What an API server says when it refuses, in its own words and nothing else: an error of a client has all the rest of its
//! answer besides.

use kube::Error;

/// The error for people.
pub(crate) fn words(error: &Error) -> String {
    match error {
        Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        Error::Api(status) => format!("the API server answers {} {}", status.code, status.reason),
        other => {
            let chain = causeway_base::report::chain(other);
            let is_away = chain.contains("Connection refused");
            if is_away { format!("{chain}; {NOBODY_THERE}") } else { chain }
        }
    }
}

/// Whether it is that the asker may not.
pub(crate) fn is_forbidden(error: &Error) -> bool {
    matches!(error, Error::Api(status) if matches!(status.code, 401 | 403))
}

/// Whether somebody else has changed the object since it was read: then it is to be read again.
pub(crate) fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 409)
}

/// What somebody may not do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Denied {
    pub(crate) verb: String,
    /// With its group, as kubectl takes it.
    pub(crate) resource: String,
    pub(crate) namespace: Option<String>,
    pub(crate) user: String,
}

impl Denied {
    /// Reads it from what an API server says.
    pub(crate) fn of(error: &Error) -> Option<Self> {
        let Error::Api(status) = error else { return None };
        if status.code == 403 { Self::read(&status.message) } else { None }
    }

    fn read(message: &str) -> Option<Self> {
        let quoted = |after: &str| {
            let rest = &message[message.find(after)? + after.len()..];
            Some(rest.split_once('"')?.0.to_owned())
        };
        let verb = message.split_once(" cannot ")?.1.split_whitespace().next()?.to_owned();
        let group = quoted("in API group \"").filter(|group| !group.is_empty());
        let resource = quoted("resource \"")?;
        Some(Self {
            verb,
            resource: group.map_or(resource.clone(), |group| {
                // A subresource follows the group: `pods/portforward`, `deployments.apps/scale`.
                let (kind, sub) = resource.split_once('/').map_or((&*resource, None), |(k, s)| (k, Some(s)));
                let sub = sub.map(|sub| format!("/{sub}")).unwrap_or_default();
                format!("{kind}.{group}{sub}")
            }),
            namespace: quoted("in the namespace \""),
            user: quoted("User \"").unwrap_or_default(),
        })
    }

    /// What is missing, and what an administrator could do about it.
    pub(crate) fn words(&self) -> String {
        let Self { verb, resource, namespace, user } = self;
        let (place, role, flag) = match namespace {
            Some(namespace) => (format!(" in namespace {namespace}"), "role", format!(" -n {namespace}")),
            None => (String::new(), "clusterrole", String::new()),
        };
        format!(
            "{user} may not {verb} {resource}{place}; an administrator can allow it: `kubectl create {role} NAME{flag} \
             --verb={verb} --resource={resource}`, and a {role}binding to it"
        )
    }
}

/// The error for a developer: what the right that is missing is called, and how it is given.
pub(crate) fn advice(error: &Error) -> String {
    Denied::of(error).map_or_else(|| words(error), |denied| denied.words())
}

const NOBODY_THERE: &str =
    "see whether the control plane runs (`causeway up`), and whether KUBECONFIG is the file of one that does";

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn an_answer_is_told_in_its_own_words() {
        let error =
            Error::Api(Status::failure("services is forbidden: User x", "Forbidden").with_code(403).boxed());
        assert_eq!(words(&error), "services is forbidden: User x");
        assert!(is_forbidden(&error));
    }

    #[test]
    fn the_right_that_is_missing_is_named() {
        let denied = |message: &str| {
            let error = Error::Api(Status::failure(message, "Forbidden").with_code(403).boxed());
            Denied::of(&error).unwrap()
        };
        let intercept = denied(
            "interceptrequests.causeway.dev is forbidden: User \"dev\" cannot create resource \"interceptrequests\" in \
             API group \"causeway.dev\" in the namespace \"shop\"",
        );
        let words = intercept.words();
        assert!(
            words.starts_with("dev may not create interceptrequests.causeway.dev in namespace shop; "),
            "{words}"
        );
        assert!(
            words.contains("role NAME -n shop --verb=create --resource=interceptrequests.causeway.dev"),
            "{words}"
        );
        let forward = denied(
            "pods \"x\" is forbidden: User \"dev\" cannot create resource \"pods/portforward\" in API group \"\" in the namespace \"a\"",
        );
        assert_eq!((&*forward.verb, &*forward.resource), ("create", "pods/portforward"));
        let nodes = denied(
            "nodes is forbidden: User \"dev\" cannot list resource \"nodes\" in API group \"\" at the cluster scope",
        );
        assert!(
            nodes.words().contains("create clusterrole NAME --verb=list --resource=nodes"),
            "{}",
            nodes.words()
        );
        let scale = denied(
            "x is forbidden: User \"dev\" cannot update resource \"deployments/scale\" in API group \"apps\" in the namespace \"a\"",
        );
        assert_eq!(scale.resource, "deployments.apps/scale");
        let other = Error::Api(Status::failure("quota is exceeded", "Forbidden").with_code(403).boxed());
        assert_eq!((Denied::of(&other), advice(&other)), (None, "quota is exceeded".to_owned()));
    }

    #[test]
    fn who_asks_nobody_is_told_what_to_look_at() {
        let error = Error::Service(std::io::Error::from_raw_os_error(111).into());
        assert!(words(&error).contains("`causeway up`"), "{}", words(&error));
    }
}
