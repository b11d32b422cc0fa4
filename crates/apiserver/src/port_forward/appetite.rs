//! How much is read at once: little from those who say little, so that a connection that is silent costs next to nothing.

use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::CHUNK;

const LEAST: usize = 2 * 1024;

#[derive(Debug)]
pub(super) struct Appetite {
    next: usize,
}

impl Default for Appetite {
    fn default() -> Self {
        Self { next: LEAST }
    }
}

impl Appetite {
    /// Reads into a buffer, at most [`CHUNK`] bytes.
    ///
    /// # Cancellation
    /// Nothing is lost.
    pub(super) async fn read(
        &mut self,
        io: &mut (impl AsyncRead + Unpin),
        buffer: &mut BytesMut,
    ) -> io::Result<usize> {
        // What is left of a buffer is used up, unless that would be too little: its owner may be waiting for somebody slow.
        if buffer.capacity() - buffer.len() < self.next / 2 {
            buffer.reserve(self.next);
        }
        let read = io.take(CHUNK as u64).read_buf(buffer).await?;
        self.next = match read {
            read if read >= self.next / 2 => (self.next * 4).min(CHUNK),
            read if read < self.next / 8 => LEAST,
            _ => self.next,
        };
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_grows_with_what_there_is_and_shrinks_again() {
        let (mut appetite, mut buffer) = (Appetite::default(), BytesMut::new());
        let plenty = vec![1; 1024 * 1024];
        let mut io = plenty.as_slice();
        let mut most = 0;
        for _ in 0..5 {
            most = appetite.read(&mut io, &mut buffer).await.unwrap();
            buffer.clear();
        }
        assert_eq!((most, appetite.next), (CHUNK, CHUNK));
        appetite.read(&mut [7].as_slice(), &mut buffer).await.unwrap();
        assert_eq!((&buffer[..], appetite.next), (&[7][..], LEAST));
    }
}
