//! A `ProxyServer`: what is wrong with one, the plan that it means, and what runs it.

pub mod bootstrap;
pub mod translate;
pub mod validate;
