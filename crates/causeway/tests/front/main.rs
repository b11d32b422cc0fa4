//! Clients and suites of other people at the front door of a gateway: WebSocket, HTTP/2, gRPC and a browser. They come from
//! `scripts/test-deps.sh`.

#![allow(clippy::unwrap_used, clippy::panic)]

mod browser;
mod gateway;
mod grpc;
mod h2spec;
mod script;
mod server;
mod websocket;
