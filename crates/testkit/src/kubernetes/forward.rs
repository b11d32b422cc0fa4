//! A way from the test's process into a cluster's network: a port of this machine's loopback for an address in there.

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Listens on a free port and carries every connection to `target` as seen from a network namespace. It lasts as long as
/// the process.
///
/// # Errors
/// When no port can be listened on.
pub(super) fn forward(namespace: PathBuf, target: SocketAddr) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let local = listener.local_addr()?;
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let namespace = namespace.clone();
            thread::spawn(move || {
                if let Ok(server) = dial(&namespace, target) {
                    carry(client, server);
                }
            });
        }
    });
    Ok(local)
}

/// The thread moves into the namespace; a socket stays where it was made, so the client's is not touched by that.
fn dial(namespace: &PathBuf, target: SocketAddr) -> io::Result<TcpStream> {
    use std::os::fd::AsFd as _;
    let file = std::fs::File::open(namespace)?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
    TcpStream::connect(target)
}

fn carry(client: TcpStream, server: TcpStream) {
    let (Ok(from_client), Ok(to_client)) = (client.try_clone(), client.try_clone()) else { return };
    let Ok(to_server) = server.try_clone() else { return };
    let up = thread::spawn(move || copy(from_client, to_server));
    copy(server, to_client);
    let _ = up.join();
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}
