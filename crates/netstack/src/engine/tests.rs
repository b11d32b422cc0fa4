//! Whole stacks on a wire made by hand, and cores that are fed rubbish.

mod rubbish;
mod stacks;
mod wire;
