//! Answers for the pages of other origins: whether a browser may ask, and whether the page may see the answer.

use causeway_ir::Period;
use causeway_ir::http::{Cors as Planned, HeaderName, Method};

use super::h1::fields::Fields;

/// Who may ask what, compiled.
#[derive(Debug)]
pub(crate) struct Cors {
    origins: Box<[Origin]>,
    credentials: bool,
    methods: Box<str>,
    headers: Box<str>,
    exposed: Box<str>,
    max_age: Option<Box<str>>,
}

#[derive(Debug)]
enum Origin {
    Any,
    Exact(Box<[u8]>),
    /// What comes before and after the star.
    Below(Box<[u8]>, Box<[u8]>),
}

impl Origin {
    fn parse(text: &str) -> Self {
        match text.split_once('*') {
            Some(("", "")) => Self::Any,
            Some((start, end)) => Self::Below(start.as_bytes().into(), end.as_bytes().into()),
            None => Self::Exact(text.as_bytes().into()),
        }
    }

    fn is_match(&self, origin: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(exact) => origin.eq_ignore_ascii_case(exact),
            Self::Below(start, end) => {
                let fits =
                    |part: &[u8], of: Option<&[u8]>| of.is_some_and(|of| of.eq_ignore_ascii_case(part));
                origin.len() > start.len() + end.len()
                    && fits(start, origin.get(..start.len()))
                    && fits(end, origin.get(origin.len() - end.len()..))
            }
        }
    }
}

impl Cors {
    pub(crate) fn compile(planned: &Planned) -> Self {
        /// Those that need no question.
        const SIMPLE: &str = "GET, HEAD, POST";
        let list = |names: Vec<&str>| Box::from(names.join(", "));
        let methods: Vec<&str> = planned.allow_methods.iter().map(Method::as_str).collect();
        Self {
            origins: planned.allow_origins.iter().map(|origin| Origin::parse(origin)).collect(),
            credentials: planned.allow_credentials,
            methods: if methods.is_empty() { SIMPLE.into() } else { list(methods) },
            headers: list(planned.allow_headers.iter().map(HeaderName::as_str).collect()),
            exposed: list(planned.expose_headers.iter().map(HeaderName::as_str).collect()),
            max_age: planned.max_age.map(|age| Period::get(age).as_secs().to_string().into()),
        }
    }

    /// Whether a request is a browser's question before the true one.
    pub(crate) fn is_question(method: &str, fields: Fields<'_>) -> bool {
        method == "OPTIONS"
            && fields.get("origin").is_some()
            && fields.get("access-control-request-method").is_some()
    }

    /// Writes the lines that answer a browser's question; none if the page may not ask.
    pub(crate) fn write_permission(&self, out: &mut Vec<u8>, fields: Fields<'_>) {
        if !self.write_origin(out, fields) {
            return;
        }
        // With credentials a star means a name that nobody has: what was asked for is said instead.
        let or_asked = |allowed: &str, asked: &str| match fields.get(asked) {
            Some(asked) if allowed == "*" && self.credentials => asked.into_owned(),
            _ => allowed.as_bytes().to_vec(),
        };
        line(out, "access-control-allow-methods", &or_asked(&self.methods, "access-control-request-method"));
        line(out, "access-control-allow-headers", &or_asked(&self.headers, "access-control-request-headers"));
        if let Some(age) = &self.max_age {
            line(out, "access-control-max-age", age.as_bytes());
        }
    }

    /// Writes the lines that let a page see an answer; none if it may not, or if no page asks.
    pub(crate) fn write_grant(&self, out: &mut Vec<u8>, fields: Fields<'_>) {
        self.write_origin(out, fields);
    }

    fn write_origin(&self, out: &mut Vec<u8>, fields: Fields<'_>) -> bool {
        let Some(origin) = fields.get("origin") else { return false };
        let Some(found) = self.origins.iter().find(|allowed| allowed.is_match(&origin)) else { return false };
        if matches!(found, Origin::Any) && !self.credentials {
            line(out, "access-control-allow-origin", b"*");
        } else {
            line(out, "access-control-allow-origin", &origin);
            line(out, "vary", b"origin");
        }
        if self.credentials {
            line(out, "access-control-allow-credentials", b"true");
        }
        line(out, "access-control-expose-headers", self.exposed.as_bytes());
        true
    }

    /// Whether an endpoint's own word is left out.
    pub(crate) fn replaces(name: &[u8]) -> bool {
        const PREFIX: &[u8] = b"access-control-";
        name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
    }
}

fn line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    if !value.is_empty() {
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            out.extend_from_slice(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(cors: &str, head: &str, permission: bool) -> String {
        let cors = Cors::compile(&serde_saphyr::from_str(cors).unwrap());
        let head = format!("{head}\r\n");
        let mut index = Vec::new();
        let fields = Fields::parse(head.as_bytes(), 0, &mut index).unwrap();
        let mut out = Vec::new();
        if permission {
            cors.write_permission(&mut out, fields);
        } else {
            cors.write_grant(&mut out, fields);
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn origins_are_allowed_by_name_by_star_and_all() {
        for (allowed, origin, granted) in [
            ("https://a.test", "https://a.test", Some("https://a.test")),
            ("https://a.test", "https://b.test", None),
            ("https://a.test", "http://a.test", None),
            ("https://*.a.test", "https://x.y.a.test", Some("https://x.y.a.test")),
            ("https://*.a.test", "https://a.test", None),
            ("https://*.a.test", "https://.a.test", None),
            ("https://*.a.test", "https://a.test.evil", None),
            ("'*'", "https://b.test", Some("*")),
        ] {
            let said = said(&format!("allowOrigins: [{allowed}]"), &format!("Origin: {origin}\r\n"), false);
            let expected = granted.map(|granted| format!("access-control-allow-origin: {granted}\r\n"));
            match expected {
                Some(expected) => assert!(said.starts_with(&expected), "{allowed} {origin}: {said}"),
                None => assert_eq!(said, "", "{allowed} {origin}"),
            }
        }
        assert_eq!(said("allowOrigins: ['*']", "", false), "");
    }

    #[test]
    fn with_credentials_the_origin_is_said_and_no_star() {
        let cors = "{allowOrigins: ['*'], allowMethods: ['*'], allowHeaders: ['*'], allowCredentials: true, maxAge: 1h}";
        let question = "Origin: https://a.test\r\nAccess-Control-Request-Method: PUT\r\nAccess-Control-Request-Headers: x-a, x-b\r\n";
        let expected = "access-control-allow-origin: https://a.test\r\nvary: origin\r\n\
                        access-control-allow-credentials: true\r\naccess-control-allow-methods: PUT\r\n\
                        access-control-allow-headers: x-a, x-b\r\naccess-control-max-age: 3600\r\n";
        assert_eq!(said(cors, question, true), expected);
        let simple = said("{allowOrigins: ['*'], exposeHeaders: [X-C]}", question, true);
        assert_eq!(
            simple,
            "access-control-allow-origin: *\r\naccess-control-expose-headers: x-c\r\n\
             access-control-allow-methods: GET, HEAD, POST\r\n"
        );
    }
}
