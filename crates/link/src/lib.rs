//! The two ends of a link.
