//! What a ContainerNetworkTunnelProxy leads to.

mod beat;
mod defects;
mod heals;
mod life;
mod servers;
mod terms;
mod truth;
mod world;
