"""Calls of every kind to a gRPC server, through a gateway. Arguments are the ports of the server, of the gateway, of the gateway
with TLS, and its authority."""

import os
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor

import grpc

MIB = 1 << 20
PATIENCE = 60
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
# Calls that the server saw end before it was done.
left = threading.Semaphore(0)


def echo(request, context):
    context.send_initial_metadata([("x-first", "1")])
    context.set_trailing_metadata([("x-last", "2"), ("x-bytes-bin", bytes(range(256)))])
    return request


def join(requests, context):
    return b",".join(requests)


def count(request, context):
    for number in range(int(request)):
        yield str(number).encode()


def answer(requests, context):
    for request in requests:
        yield b"re: " + request


def fail(request, context):
    context.set_trailing_metadata([("grpc-status-details-bin", b"\x08\x05\x12\x04gone")])
    context.abort(grpc.StatusCode.NOT_FOUND, "no such thing: 100 % é")


def fail_late(request, context):
    yield b"one"
    context.abort(grpc.StatusCode.DATA_LOSS, "the rest is gone")


def stay(request, context):
    ended = threading.Event()

    def end():
        left.release()
        ended.set()

    # Said from here: a call that ends while its first word is sent is not taken up again below.
    context.add_callback(end)
    yield b"here"
    ended.wait(PATIENCE)


def server(port):
    methods = {
        "Echo": grpc.unary_unary_rpc_method_handler(echo),
        "Join": grpc.stream_unary_rpc_method_handler(join),
        "Count": grpc.unary_stream_rpc_method_handler(count),
        "Answer": grpc.stream_stream_rpc_method_handler(answer),
        "Fail": grpc.unary_unary_rpc_method_handler(fail),
        "FailLate": grpc.unary_stream_rpc_method_handler(fail_late),
        "Stay": grpc.unary_stream_rpc_method_handler(stay),
    }
    served = grpc.server(ThreadPoolExecutor(32), options=UNLIMITED)
    served.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("test.Calls", methods)])
    assert served.add_insecure_port(f"127.0.0.1:{port}") == port
    served.start()
    return served


class Calls:
    def __init__(self, channel):
        self.channel = channel
        self.states = []
        channel.subscribe(self.states.append, try_to_connect=True)

    def unary(self):
        answered, call = self.channel.unary_unary("/test.Calls/Echo").with_call(b"hello", timeout=PATIENCE)
        assert answered == b"hello"
        assert ("x-first", "1") in call.initial_metadata()
        last = dict(call.trailing_metadata())
        assert last == {"x-last": "2", "x-bytes-bin": bytes(range(256))}, last

    def client_stream(self):
        parts = [str(number).encode() for number in range(500)]
        assert self.channel.stream_unary("/test.Calls/Join")(iter(parts), timeout=PATIENCE) == b",".join(parts)

    def server_stream(self):
        found = list(self.channel.unary_stream("/test.Calls/Count")(b"500", timeout=PATIENCE))
        assert found == [str(number).encode() for number in range(500)]
        assert list(self.channel.unary_stream("/test.Calls/Count")(b"0", timeout=PATIENCE)) == []

    def both_ways(self):
        heard = threading.Semaphore(0)

        def questions():
            for number in range(100):
                yield str(number).encode()
                # The next one is asked once this one was answered.
                assert heard.acquire(timeout=PATIENCE)

        answers = self.channel.stream_stream("/test.Calls/Answer")(questions(), timeout=PATIENCE)
        for number, found in enumerate(answers):
            assert found == f"re: {number}".encode()
            heard.release()
        assert number == 99

    def errors(self):
        error = refused(lambda: self.channel.unary_unary("/test.Calls/Fail")(b"", timeout=PATIENCE))
        assert error.code() == grpc.StatusCode.NOT_FOUND and error.details() == "no such thing: 100 % é"
        assert dict(error.trailing_metadata())["grpc-status-details-bin"] == b"\x08\x05\x12\x04gone"
        parts = self.channel.unary_stream("/test.Calls/FailLate")(b"", timeout=PATIENCE)
        assert next(parts) == b"one"
        error = refused(lambda: next(parts))
        assert error.code() == grpc.StatusCode.DATA_LOSS and error.details() == "the rest is gone"
        error = refused(lambda: self.channel.unary_unary("/test.Calls/None")(b"", timeout=PATIENCE))
        assert error.code() == grpc.StatusCode.UNIMPLEMENTED

    def deadline(self):
        parts = self.channel.unary_stream("/test.Calls/Stay")(b"", timeout=1)
        error = refused(lambda: list(parts))
        assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        assert left.acquire(timeout=PATIENCE), "the server did not hear of it"

    def cancellation(self):
        # A watch that is given up after its first word, again and again, is no flood.
        for _ in range(300):
            parts = self.channel.unary_stream("/test.Calls/Stay")(b"", timeout=PATIENCE)
            assert next(parts) == b"here"
            parts.cancel()
            assert refused(lambda: next(parts)).code() == grpc.StatusCode.CANCELLED
            assert left.acquire(timeout=PATIENCE), "the server did not hear of it"

    def large_messages(self):
        message = bytes(range(256)) * (16 * MIB // 256)
        assert self.channel.unary_unary("/test.Calls/Echo")(message, timeout=PATIENCE) == message
        answers = self.channel.stream_stream("/test.Calls/Answer")(iter([message] * 2), timeout=PATIENCE)
        assert all(found == b"re: " + message for found in answers)

    def keepalive(self):
        # The channel asks every 100 ms whether we are there, and gives up after a second without an answer.
        parts = self.channel.unary_stream("/test.Calls/Stay")(b"", timeout=2)
        assert refused(lambda: list(parts)).code() == grpc.StatusCode.DEADLINE_EXCEEDED
        assert left.acquire(timeout=PATIENCE)

    def a_thousand_calls(self):
        echo = self.channel.unary_unary("/test.Calls/Echo")
        calls = [echo.future(str(number).encode(), timeout=PATIENCE) for number in range(1000)]
        assert [call.result() for call in calls] == [str(number).encode() for number in range(1000)]
        # All of this on one connection.
        ready = [state for state in self.states if state == grpc.ChannelConnectivity.READY]
        assert len(ready) == 1, self.states


def refused(call):
    try:
        call()
    except grpc.RpcError as error:
        return error
    raise AssertionError("it was not refused")


def main(port, plain, secure, authority):
    served = server(port)
    with open(authority, "rb") as file:
        trusted = grpc.ssl_channel_credentials(file.read())
    options = UNLIMITED + [
        ("grpc.keepalive_time_ms", 100),
        ("grpc.keepalive_timeout_ms", 1000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    for channel in [
        grpc.insecure_channel(f"localhost:{plain}", options),
        grpc.secure_channel(f"localhost:{secure}", trusted, options),
    ]:
        calls = Calls(channel)
        for name in [name for name in vars(Calls) if not name.startswith("_")]:
            getattr(calls, name)()
            print("ok", name, flush=True)
        channel.close()
    served.stop(None)


if __name__ == "__main__":
    failed = 0
    try:
        main(*map(int, sys.argv[1:4]), sys.argv[4])
    except BaseException:
        failed = 1
        traceback.print_exc()
    # At its own end Python would wait for threads of calls that nobody ends any more.
    sys.stdout.flush()
    os._exit(failed)
