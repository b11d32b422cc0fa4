//! What is said with statuses that are answered here, where a plan has words for them. A page is there once, whoever says
//! it; another content of it counts at once and changes no route.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use causeway_base::lock;
use causeway_ir::http::{self, ErrorPage};
use causeway_ir::{Change, Name};

use super::answer::{self, Ending};

/// The pages of a plan.
#[derive(Default)]
pub(crate) struct PageSet(HashMap<Name, Arc<Page>>);

/// Pages by status.
pub(crate) struct Pages(HashMap<u16, Arc<Page>>);

/// What a page says at the moment.
struct Page(RwLock<Arc<Content>>);

struct Content {
    /// The lines that tell of the body.
    lines: Box<[u8]>,
    body: Box<[u8]>,
}

impl PageSet {
    /// Makes and changes pages, and forgets those that are gone.
    pub(crate) fn apply(&mut self, changes: &[Change<'_, http::Page>]) {
        for change in changes {
            match (change.old, change.new) {
                (_, Some(planned)) => {
                    let content = Content::of(planned);
                    if let Some(page) = self.0.get(&planned.name) {
                        *lock::write(&page.0) = content;
                    } else {
                        self.0.insert(planned.name.clone(), Arc::new(Page(RwLock::new(content))));
                    }
                }
                (Some(gone), None) => drop(self.0.remove(&gone.name)),
                (None, None) => {}
            }
        }
    }

    /// Compiles; nothing if there are none.
    pub(crate) fn compiled(&self, planned: &[ErrorPage]) -> Option<Arc<Pages>> {
        let mut pages = HashMap::new();
        for ErrorPage { statuses, page } in planned {
            // A valid plan has all that it names.
            let page = self.0.get(page)?;
            pages.extend(statuses.iter().map(|status| (*status, Arc::clone(page))));
        }
        (!pages.is_empty()).then(|| Arc::new(Pages(pages)))
    }
}

impl Content {
    fn of(planned: &http::Page) -> Arc<Self> {
        let lines =
            format!("content-type: {}\r\ncontent-length: {}\r\n", planned.content_type, planned.body.len());
        Arc::new(Self { lines: lines.into_bytes().into(), body: planned.body.as_bytes().into() })
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
    let page = Arc::clone(&lock::read(&page.0));
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

    fn said(pages: &Pages, status: u16, to_head: bool) -> String {
        let mut out = Vec::new();
        let ending = Ending { version: Version::Http11, keep_alive: true, to_head };
        write_error(&mut out, status, Some(pages), b"x: y\r\n", ending);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_page_is_for_its_statuses_alone_and_says_what_it_says_last() {
        let planned = |body: &str| -> Vec<http::Page> {
            serde_saphyr::from_str(&format!("[{{name: p, body: {body}}}]")).unwrap()
        };
        let (one, other) = (planned("<p>sorry</p>"), planned("later"));
        let mut set = PageSet::default();
        set.apply(&causeway_ir::changes(&[], &one));
        let asked: Vec<ErrorPage> = serde_saphyr::from_str("[{statuses: [404, 503], page: p}]").unwrap();
        let pages = set.compiled(&asked).unwrap();
        let head = "HTTP/1.1 503 Service Unavailable\r\nx: y\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: 12\r\n\r\n";
        assert_eq!(said(&pages, 503, false), format!("{head}<p>sorry</p>"));
        assert_eq!(said(&pages, 503, true), head);
        assert!(said(&pages, 502, false).ends_with("\r\n\r\nBad Gateway\n"));
        set.apply(&causeway_ir::changes(&one, &other));
        assert!(said(&pages, 404, false).ends_with("\r\n\r\nlater"));
        assert!(set.compiled(&[]).is_none());
        // Who still says a page that is gone says it to the end.
        set.apply(&causeway_ir::changes(&other, &[]));
        assert!(said(&pages, 404, false).ends_with("\r\n\r\nlater"));
    }
}
