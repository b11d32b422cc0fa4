//! Servers on the host, and what a container would do to reach them.

use std::{io, net::Ipv4Addr, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// A server that says its name and then echoes.
pub struct Echo {
    pub port: u16,
    task: JoinHandle<()>,
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Echo {
    pub async fn start(name: &str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let greeting = format!("{name}\n");
        let task = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let greeting = greeting.clone();
                tokio::spawn(async move {
                    stream.write_all(greeting.as_bytes()).await?;
                    let (mut reader, mut writer) = stream.split();
                    tokio::io::copy(&mut reader, &mut writer).await?;
                    writer.shutdown().await
                });
            }
        });
        Self { port, task }
    }
}

/// Connects to a tunnel's port as a container would: gives the name of the server behind it after a round trip.
pub async fn ask(port: u16) -> io::Result<String> {
    let asked = async {
        let mut stream = BufReader::new(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?);
        let mut name = String::new();
        stream.read_line(&mut name).await?;
        if name.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let sent = vec![b'x'; 100_000];
        let mut back = Vec::new();
        let (mut reader, mut writer) = tokio::io::split(stream);
        let (read, written) = tokio::join!(reader.read_to_end(&mut back), async {
            writer.write_all(&sent).await?;
            writer.shutdown().await
        });
        read?;
        written?;
        assert_eq!(back.len(), sent.len(), "every byte comes back");
        Ok(name.trim_end().to_owned())
    };
    tokio::time::timeout(Duration::from_secs(10), asked).await?
}

/// Established TCP connections of this machine to this port of loopback.
pub fn connections_to(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let remote = format!("0100007F:{port:04X}");
    table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|fields| fields.get(2) == Some(&remote.as_str()) && fields.get(3) == Some(&"01"))
        .count()
}

/// A stream that stays open.
pub struct Conversation {
    stream: BufReader<TcpStream>,
    said: u32,
}

impl Conversation {
    pub async fn begin(port: u16) -> Self {
        Self::try_begin(port).await.unwrap()
    }

    pub async fn try_begin(port: u16) -> io::Result<Self> {
        let mut stream = BufReader::new(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?);
        let mut name = String::new();
        stream.read_line(&mut name).await?;
        if name.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Self { stream, said: 0 })
    }

    /// Whatever is said next comes back.
    pub async fn goes_on(&mut self) {
        self.said += 1;
        let word = format!("word {}\n", self.said);
        self.stream.get_mut().write_all(word.as_bytes()).await.unwrap();
        let mut back = String::new();
        let read = self.stream.read_line(&mut back);
        tokio::time::timeout(Duration::from_secs(10), read).await.unwrap().unwrap();
        assert_eq!(back, word);
    }
}
