//! What the regular expressions of one route may take together: who writes a route shares the memory of whoever reads it.

use causeway_ir::http::{Regex, RequestMatch};

/// The most of one route. A usual expression takes ten thousand bytes.
const MOST: usize = 2 << 20;

/// What is left for the expressions of a route.
pub(super) struct Budget {
    left: usize,
    /// Whether matches are made at all.
    is_used: bool,
}

impl Budget {
    pub(super) fn new(is_used: bool) -> Self {
        Self { left: MOST, is_used }
    }

    /// The matches of a rule.
    pub(super) fn matches<W>(
        &mut self,
        written: &[W],
        read: fn(&W, &mut Self) -> Result<RequestMatch, String>,
    ) -> Result<Vec<RequestMatch>, String> {
        if !self.is_used {
            return Ok(Vec::new());
        }
        written.iter().map(|written| read(written, self)).collect()
    }

    /// An expression, if it fits.
    pub(super) fn regex(&mut self, text: &str) -> Result<Regex, String> {
        let regex = Regex::parse(text)?;
        self.left = self.left.checked_sub(regex.size()).ok_or_else(|| {
            format!(
                "`{text}` and the expressions before it take more memory than the {} KiB of a route: make them simpler, \
                 or write several routes",
                MOST / 1024
            )
        })?;
        Ok(regex)
    }
}
