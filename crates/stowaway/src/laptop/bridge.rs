//! A byte stream of any kind as a socket, which links want: a pair of sockets on the loopback, and a task that joins the far
//! one to the stream.

use std::io;
use std::net::Ipv4Addr;

use tokio::net::{TcpListener, TcpStream};

use super::approach::Duplex;
use crate::join::join;

/// A socket that leads to the stream. The task ends with either of them.
pub(super) async fn bridge(mut stream: Box<dyn Duplex>) -> io::Result<TcpStream> {
    let (near, mut far) = pair().await?;
    tokio::spawn(async move {
        if let Err(error) = join(&mut far, &mut stream).await {
            tracing::debug!(%error, "a bridge ended");
        }
    });
    Ok(near)
}

/// Two ends of a connection with oneself.
pub(crate) async fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let near = TcpStream::connect(listener.local_addr()?).await?;
    let own = near.local_addr()?;
    // Whoever else connects in between is not let in.
    let far = loop {
        let (socket, from) = listener.accept().await?;
        if from == own {
            break socket;
        }
    };
    // A link's frames must not wait for more to come.
    far.set_nodelay(true)?;
    near.set_nodelay(true)?;
    Ok((near, far))
}
