//! Pages that are fetched through the tunnel, from both sides.

use causeway_netstack::{Arrivals, Incoming, TcpFlow};
use causeway_testkit::{eventually, soon};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

use crate::machine::{alone, text, world};

/// Answers everything that comes: connections as a web server that knows one page, datagrams with themselves.
pub fn serve(mut arrivals: Arrivals, page: Vec<u8>) {
    tokio::spawn(async move {
        while let Some(incoming) = arrivals.next().await {
            let page = page.clone();
            tokio::spawn(async move {
                match incoming {
                    Incoming::Tcp(pending) if pending.to().port() == 80 => {
                        answer(pending.accept(), &page).await;
                    }
                    Incoming::Tcp(pending) => pending.refuse(),
                    Incoming::Udp(flow) if flow.to().port() == 53 => {
                        while let Some(datagram) = flow.receive().await {
                            flow.send(&datagram);
                        }
                    }
                    Incoming::Udp(flow) => flow.refuse(),
                }
            });
        }
    });
}

async fn answer(flow: TcpFlow, page: &[u8]) {
    let mut flow = BufReader::new(flow);
    let (mut line, mut length) = (String::new(), 0);
    while flow.read_line(&mut line).await.is_ok_and(|count| count > 2) {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
            length = value.trim().parse().unwrap();
        }
        if line.to_ascii_lowercase().starts_with("expect:") {
            flow.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.unwrap();
        }
        line.clear();
    }
    let uploaded = tokio::io::copy(&mut (&mut flow).take(length), &mut tokio::io::sink()).await.unwrap();
    let page = if length > 0 { format!("got {uploaded}").into_bytes() } else { page.to_vec() };
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", page.len());
    let _ = flow.write_all(head.as_bytes()).await;
    let _ = flow.write_all(&page).await;
    let _ = flow.shutdown().await;
    let _ = flow.read(&mut [0]).await;
}

#[test]
fn a_page_is_fetched_from_the_stack_and_from_the_machine() {
    alone(async || {
        let (_hub, stack, arrivals, machine) = world().await;
        serve(arrivals, b"hello from the stack".to_vec());
        for address in ["10.96.0.10", "10.96.77.1", "[fd00:96::10]"] {
            let url = format!("http://{address}/");
            let page = machine.ask("curl", &["-sS", "--max-time", "20", &url]).await;
            assert_eq!(page, "hello from the stack");
        }
        let refused = machine.run("curl", &["-sS", "--max-time", "20", "http://10.96.0.10:81/"]).await;
        assert_eq!(refused.status.code(), Some(7), "at once: {}", text(&refused.stderr));
        // A ping, and datagrams of all sizes.
        machine.ask("busybox", &["ping", "-c", "1", "-W", "10", "10.96.0.10"]).await;
        machine.ask("busybox", &["ping6", "-c", "1", "-W", "10", "fd00:96::10"]).await;
        let script = "import socket
for family, host in ((socket.AF_INET, '10.96.0.53'), (socket.AF_INET6, 'fd00:96::53')):
    s = socket.socket(family, socket.SOCK_DGRAM); s.settimeout(20)
    for n in (1, 100, 1300, 4000, 30000):
        s.sendto(b'x' * n, (host, 53)); assert len(s.recv(65535)) == n
    s.connect((host, 54)); s.send(b'x')
    try: s.recv(1); assert False
    except ConnectionRefusedError: pass
print('fine')";
        assert_eq!(machine.ask("python3", &["-c", script]).await.trim(), "fine");
        // The other way round.
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("index.html"), "hello from the machine").unwrap();
        let place = directory.path().to_str().unwrap();
        let _server = machine.start("python3", &["-m", "http.server", "-b", "::", "-d", place, "3000"]);
        for (from, to) in [("10.7.0.1:0", "10.7.0.2:3000"), ("[fd00:7::1]:0", "[fd00:7::2]:3000")] {
            let mut flow = eventually("the machine's server", async || {
                stack.connect_tcp(from.parse().unwrap(), to.parse().unwrap()).await
            })
            .await;
            flow.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
            let mut answer = String::new();
            soon("a page", flow.read_to_string(&mut answer)).await.unwrap();
            assert!(answer.ends_with("hello from the machine"), "{answer}");
        }
        let refused =
            stack.connect_tcp("10.7.0.1:0".parse().unwrap(), "10.7.0.2:3001".parse().unwrap()).await;
        assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
    });
}

#[test]
fn a_machine_that_moves_keeps_its_connections() {
    alone(async || {
        let (hub, _stack, mut arrivals, machine) = world().await;
        let script = "import socket
s = socket.create_connection(('10.96.0.1', 80), 60)
f = s.makefile('rw')
while True:
    line = f.readline()
    if not line: break
    f.write(line); f.flush()";
        let _client = machine.start("python3", &["-c", script]);
        let Some(Incoming::Tcp(pending)) = soon("a connection", arrivals.next()).await else { panic!() };
        let mut flow = BufReader::new(pending.accept());
        for address in ["192.0.2.2/24", "192.0.2.3/24", "192.0.2.77/24"] {
            machine.move_to(address).await;
            flow.write_all(format!("at {address}\n").as_bytes()).await.unwrap();
            let mut echo = String::new();
            soon("an echo", flow.read_line(&mut echo)).await.unwrap();
            assert_eq!(echo, format!("at {address}\n"));
            let expected = address.split_once('/').unwrap().0;
            eventually("the hub knows where it is", async || {
                let standings = hub.standings();
                let endpoint = standings.values().next().unwrap().endpoint.unwrap();
                if endpoint.ip().to_string() == expected { Ok(()) } else { Err(endpoint) }
            })
            .await;
        }
    });
}
