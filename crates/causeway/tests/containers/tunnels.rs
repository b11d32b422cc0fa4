//! What a ContainerNetworkTunnelProxy leads to.

mod defects;
mod heals;
mod life;
mod servers;
mod world;
