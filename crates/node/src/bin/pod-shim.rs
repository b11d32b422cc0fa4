//! The shim as a program of its own, for this crate's tests; the product starts it as `causeway pod-shim`.

use std::process::ExitCode;

fn main() -> ExitCode {
    causeway_node::shim::main(std::env::args_os().skip(1))
}
