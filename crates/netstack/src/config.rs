//! What a stack is told when it starts.

use std::time::Duration;

/// Bounds and patience of a [`Stack`](crate::Stack).
#[derive(Clone, Debug)]
pub struct Config {
    /// TCP connections and UDP flows at a time; the address at the other end of a flow gets at most half of what is free.
    pub max_flows: u64,
    /// Bytes that all flows together keep in their buffers, shared in the same way. Beyond it every flow still has 4 KiB
    /// each way.
    pub memory: u64,
    /// The largest window of a TCP connection, either way: what is on the way at a time, so it bounds speed × round trip.
    pub largest_window: u32,
    /// Connections and flows that wait for the owner to look at them; when all places are taken, what comes is dropped,
    /// and the other end tries again.
    pub backlog: usize,
    /// Silence after which the other end of a TCP connection is asked whether it is there.
    pub keepalive: Duration,
    /// How long bytes may stay unacknowledged before a TCP connection is given up.
    pub give_up: Duration,
    /// Silence after which a UDP flow ends.
    pub udp_idle: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_flows: 16_384,
            memory: (causeway_base::capacity::memory() / 4).min(512 << 20),
            largest_window: 4 << 20,
            backlog: 1024,
            keepalive: Duration::from_mins(1),
            give_up: Duration::from_mins(2),
            udp_idle: Duration::from_mins(1),
        }
    }
}
