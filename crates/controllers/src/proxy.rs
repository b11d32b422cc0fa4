//! A `ProxyServer` and what runs it.

pub mod bootstrap;
