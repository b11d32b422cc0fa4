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
    fn who_asks_nobody_is_told_what_to_look_at() {
        let error = Error::Service(std::io::Error::from_raw_os_error(111).into());
        assert!(words(&error).contains("`causeway up`"), "{}", words(&error));
    }
}
