//! What is said with statuses that are answered here, where a plan has words for them.

use std::collections::HashMap;
use std::sync::Arc;

use causeway_ir::http::ErrorPage;

use super::answer::{self, Ending};

/// Pages by status.
pub(crate) struct Pages(HashMap<u16, Arc<Page>>);

struct Page {
    /// The lines that tell of the body.
    lines: Box<[u8]>,
    body: Box<[u8]>,
}

impl Pages {
    /// Compiles; nothing if there are none.
    pub(crate) fn compile(planned: &[ErrorPage]) -> Option<Arc<Self>> {
        let mut pages = HashMap::new();
        for page in planned {
            let lines =
                format!("content-type: {}\r\ncontent-length: {}\r\n", page.content_type, page.body.len());
            let compiled =
                Arc::new(Page { lines: lines.into_bytes().into(), body: page.body.as_bytes().into() });
            pages.extend(page.statuses.iter().map(|status| (*status, Arc::clone(&compiled))));
        }
        (!pages.is_empty()).then(|| Arc::new(Self(pages)))
    }
}

/// Writes an answer that is made here: the page for its status, or its status and no more. `lines` go with it.
pub(crate) fn write_error(
    out: &mut Vec<u8>,
    status: u16,
    pages: Option<&Pages>,
    lines: &[u8],
    ending: Ending,
) {
    let Some(page) = pages.and_then(|pages| pages.0.get(&status)) else {
        return answer::write_plain_with(out, status, lines, ending);
    };
    answer::write_status(out, status, answer::reason(status).as_bytes());
    out.extend_from_slice(lines);
    out.extend_from_slice(&page.lines);
    ending.write(out);
    if !ending.to_head {
        out.extend_from_slice(&page.body);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::h1::Version;

    #[test]
    fn a_page_is_for_its_statuses_alone() {
        let planned: Vec<ErrorPage> =
            serde_saphyr::from_str("[{statuses: [404, 503], body: <p>sorry</p>}]").unwrap();
        let pages = Pages::compile(&planned).unwrap();
        let said = |status: u16, to_head: bool| {
            let mut out = Vec::new();
            let ending = Ending { version: Version::Http11, keep_alive: true, to_head };
            write_error(&mut out, status, Some(&pages), b"x: y\r\n", ending);
            String::from_utf8(out).unwrap()
        };
        let head = "HTTP/1.1 503 Service Unavailable\r\nx: y\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: 12\r\n\r\n";
        assert_eq!(said(503, false), format!("{head}<p>sorry</p>"));
        assert_eq!(said(503, true), head);
        assert!(said(502, false).ends_with("\r\n\r\nBad Gateway\n"));
        assert!(Pages::compile(&[]).is_none());
    }
}
