//! Docker and Podman through their socket.
