//! Programs of others that speak gRPC and WebSocket: on one machine and on a cluster.

use std::process::Child;

/// A process that ends with the value, however the test ends.
pub struct Ended(pub Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A gRPC server on the first port, and a WebSocket server on the second, each of which says what it heard.
pub const SERVERS: &str = "
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

/// Calls of gRPC at an address, with a header and without.
pub const CALLS: &str = "
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

/// A WebSocket at an address, with the header.
pub const SOCKET: &str = "
import sys, websocket
socket = websocket.create_connection('ws://' + sys.argv[1] + '/ws', header=['X-User: lap'], timeout=10)
for word in ['one', 'two']:
    socket.send(word)
    print(socket.recv())
socket.close()
";
