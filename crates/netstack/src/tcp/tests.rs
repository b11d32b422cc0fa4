//! Two connections on a path made by hand, in a time made by hand: everything is repeatable, and an hour takes no time.

mod behaviour;
mod paths;
mod world;
