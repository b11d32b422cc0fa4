//! Copies, gRPC and WebSockets through a real cluster, with peers that others wrote.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use causeway_testkit::blocking::eventually;
use causeway_testkit::environment;
use causeway_testkit::kubectl::finish;

use super::laptop::{Laptop, answers, ask, there};
use crate::world::{PATIENCE, World, cluster};

/// A gRPC server on the first port, and a WebSocket server on the second, each of which says what it heard.
const SERVERS: &str = "
import sys, threading, grpc
from concurrent.futures import ThreadPoolExecutor
from autobahn.asyncio.websocket import WebSocketServerFactory, WebSocketServerProtocol
import asyncio
def say(request, context):
    context.set_trailing_metadata([('x-by', 'laptop')])
    return b'laptop ' + request
def count(request, context):
    for number in range(int(request)):
        yield str(number).encode()
served = grpc.server(ThreadPoolExecutor(4))
methods = {'Say': grpc.unary_unary_rpc_method_handler(say), 'Count': grpc.unary_stream_rpc_method_handler(count)}
served.add_generic_rpc_handlers([grpc.method_handlers_generic_handler('test.Calls', methods)])
assert served.add_insecure_port('127.0.0.1:' + sys.argv[1])
served.start()
class Echo(WebSocketServerProtocol):
    def onMessage(self, payload, is_binary):
        self.sendMessage(b'laptop ' + payload, is_binary)
loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
factory = WebSocketServerFactory()
factory.protocol = Echo
loop.run_until_complete(loop.create_server(factory, '127.0.0.1', int(sys.argv[2])))
loop.run_forever()
";

const CALLS: &str = "
import sys, grpc
channel = grpc.insecure_channel(sys.argv[1] + ':80')
mine = [('x-user', 'lap')]
answer, call = channel.unary_unary('/test.Calls/Say').with_call(b'hello', metadata=mine, timeout=10)
assert answer == b'laptop hello' and ('x-by', 'laptop') in call.trailing_metadata(), (answer, call.trailing_metadata())
found = list(channel.unary_stream('/test.Calls/Count')(b'200', metadata=mine, timeout=10))
assert found == [str(number).encode() for number in range(200)], found
try:
    print('reached', channel.unary_unary('/test.Calls/Say')(b'hello', timeout=10))
except grpc.RpcError as error:
    print('others:', error.code().name)
";

const SOCKET: &str = "
import sys, websocket
socket = websocket.create_connection('ws://' + sys.argv[1] + '/ws', header=['X-User: lap'], timeout=10)
for word in ['one', 'two']:
    socket.send(word)
    print(socket.recv())
socket.close()
";

#[test]
fn grpc_and_websockets_find_their_way_by_header() {
    let Some(python) = environment::python("grpc, websocket, autobahn") else { return };
    let Some(world) = World::new("protocols") else { return };
    world.http_server("web");
    let address = world.kubectl.value("service/web", ".spec.clusterIP");
    let python = python.display().to_string();
    let mut servers = cluster().unwrap().on_node(&python);
    servers.args(["-c", SERVERS, "13041", "13042"]).stdin(Stdio::null()).stdout(Stdio::null());
    let servers = Ended(servers.spawn().unwrap());
    let client = |script: &str| {
        let mut command: Command = cluster().unwrap().on_node(&python);
        finish(command.args(["-c", script, &address]).env_remove("http_proxy").env_remove("HTTP_PROXY"))
    };
    for (port, script, says) in [(13_041, CALLS, "others:"), (13_042, SOCKET, "laptop one\nlaptop two")] {
        let laptop = Laptop::bare(&world, "lap", port);
        laptop.connect("link");
        laptop.intercept_mine("deploy/web").ok();
        eventually("it is reached", PATIENCE, || {
            let ran = client(script);
            if ran.code == Some(0) && ran.stdout.contains(says) { Ok(()) } else { Err(ran.to_string()) }
        });
        answers(&address, None, "web").unwrap();
    }
    drop(servers);
}

#[test]
fn a_laptop_that_gets_copies_slows_nobody() {
    let Some(world) = World::new("copies") else { return };
    world.http_server("web");
    let address = world.kubectl.value("service/web", ".spec.clusterIP");
    let laptop = Laptop::bare(&world, "lap", 13_051);
    laptop.connect("link");
    // One that hears, and never answers.
    let (heard_tx, heard_rx) = mpsc::channel();
    let listener = there(|| TcpListener::bind(("127.0.0.1", 13_051)).unwrap());
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let mut bytes = [0; 512];
            if let Ok(count @ 1..) = stream.read(&mut bytes) {
                let _ = heard_tx.send(String::from_utf8_lossy(&bytes[..count]).into_owned());
            }
            let _ = stream.flush();
            open.push(stream);
        }
    });
    laptop.intercept("deploy/web", &["--mirror"]).ok();
    eventually("copies come here", PATIENCE, || {
        assert_eq!(ask(&address, None).unwrap(), "web");
        heard_rx.recv_timeout(Duration::from_millis(200)).is_ok_and(|heard| heard.starts_with("GET /load"))
    });
    for _ in 0..100 {
        assert_eq!(ask(&address, Some("lap")).unwrap(), "web");
    }
    laptop.run(&["leave", "--all"]).ok();
}

/// A process that ends with the value.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
