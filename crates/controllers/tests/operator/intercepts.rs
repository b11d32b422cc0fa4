//! Workstations and intercepts: what the operator makes of them, and what it says. The pods, and who keeps endpoints, are played by
//! the test.

mod forged;
mod lives;
mod machines;
mod scene;
mod swapped;
