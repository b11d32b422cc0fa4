//! A program in a user and network namespace of its own, with a stack of this test as its only way out. The program is this
//! one again: it enters the namespaces, hands the device over, and becomes what it is told to be.

#![allow(clippy::unwrap_used, clippy::panic)]

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|argument| argument == "inside") {
        linux::inside(&arguments[2..]);
    }
    // Whoever lists tests sees one.
    if arguments.iter().any(|argument| argument == "--list") {
        println!("a_program_sees_what_the_stack_shows: test");
        return;
    }
    linux::a_program_sees_what_the_stack_shows();
}

#[cfg(target_os = "linux")]
mod linux {
    use std::os::fd::{AsFd as _, OwnedFd};
    use std::os::unix::net::UnixStream;
    use std::os::unix::process::CommandExt as _;
    use std::path::PathBuf;
    use std::process::{Command, Stdio};

    use causeway_netstack::tun::{MTU, Settings, Tun, enter, hand_over, take_over};
    use causeway_netstack::{Config, Incoming, Stack};
    use causeway_testkit::{peer, soon};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// In the child: the socket is its standard input.
    pub(super) fn inside(arguments: &[String]) -> ! {
        let mut settings =
            Settings::new(vec!["10.66.0.2/24".parse().unwrap(), "fd66::2/64".parse().unwrap()]);
        settings.files = vec![(PathBuf::from(&arguments[0]), PathBuf::from("/etc/hostname"))];
        let socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
        let device = enter(&settings).unwrap_or_else(|error| {
            eprintln!("{error}");
            std::process::exit(3);
        });
        hand_over(&socket, &device).unwrap();
        drop(device);
        let error = Command::new(&arguments[1]).args(&arguments[2..]).stdin(Stdio::null()).exec();
        panic!("{error}");
    }

    const SCRIPT: &str = "
import os, socket
def fetch(host):
    s = socket.create_connection((host, 80), 20)
    s.sendall(b'x' * 300000); s.shutdown(socket.SHUT_WR)
    return sum(len(p) for p in iter(lambda: s.recv(1 << 16), b''))
assert fetch('198.51.100.7') == 300000
assert fetch('2001:db8::7') == 300000
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(20)
s.sendto(b'name?', ('198.51.100.53', 53)); assert s.recv(100) == b'name?'
try: socket.create_connection(('198.51.100.7', 81), 20); assert False
except ConnectionRefusedError: pass
assert open('/etc/hostname').read() == 'inside'
assert os.getuid() == int(os.environ['WANT_UID'])
print('fine')";

    pub(super) fn a_program_sees_what_the_stack_shows() {
        if rustix::fs::access("/dev/net/tun", rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK)
            .is_err()
        {
            peer::skip("/dev/net/tun, which this user may not open");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("hostname");
        std::fs::write(&file, "inside").unwrap();
        let (here, there) = UnixStream::pair().unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .arg("inside")
            .arg(&file)
            .args(["python3", "-c", SCRIPT])
            .env("WANT_UID", rustix::process::geteuid().as_raw().to_string())
            .stdin(OwnedFd::from(there))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let Ok(device) = take_over(&here) else {
            let output = child.wait_with_output().unwrap();
            peer::skip(&format!("namespaces: {}", String::from_utf8_lossy(&output.stderr)));
            return;
        };
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let (_stack, mut arrivals) = Stack::start(Tun::new(device, MTU).unwrap(), &Config::default());
            tokio::spawn(async move {
                while let Some(incoming) = arrivals.next().await {
                    tokio::spawn(async move {
                        match incoming {
                            Incoming::Tcp(pending) if pending.to().port() == 80 => {
                                let mut flow = pending.accept();
                                let mut bytes = Vec::new();
                                flow.read_to_end(&mut bytes).await.unwrap();
                                flow.write_all(&bytes).await.unwrap();
                                flow.shutdown().await.unwrap();
                            }
                            Incoming::Tcp(pending) => pending.refuse(),
                            Incoming::Udp(flow) => {
                                while let Some(datagram) = flow.receive().await {
                                    flow.send(&datagram);
                                }
                            }
                        }
                    });
                }
            });
            let output = tokio::task::spawn_blocking(|| child.wait_with_output().unwrap());
            let output = soon("the program's end", output).await.unwrap();
            let (said, wrong) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert_eq!(said.trim(), "fine", "{wrong}");
        });
        println!("test a_program_sees_what_the_stack_shows ... ok");
    }
}
