//! A server of HTTP/1.1 behind the gateway.

use std::net::TcpListener;

use axum::Router;

/// Serves these routes on a thread of its own for as long as the tests run; its port.
pub(crate) fn serve(routes: Router) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, routes).await.unwrap();
        });
    });
    port
}
