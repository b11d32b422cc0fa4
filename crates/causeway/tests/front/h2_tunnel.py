"""WebSockets in the streams of one connection of HTTP/2 (RFC 8441), for clients that know HTTP/1.1 alone: their upgrade
becomes an extended CONNECT, and its answer the one that they wait for."""

import asyncio
import base64
import contextlib
import hashlib
import ssl

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings

OF_UPGRADES = {"host", "connection", "upgrade", "sec-websocket-key", "pragma", "cache-control"}


class Tunnel(asyncio.Protocol):
    """The connection."""

    def __init__(self):
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.streams = {}
        self.ended = False
        self.ready = asyncio.get_running_loop().create_future()

    @classmethod
    async def connect(cls, port, tls):
        context = None
        if tls:
            context = ssl.create_default_context(cafile=tls)
            context.set_alpn_protocols(["h2"])
        name = "localhost" if tls else None
        loop = asyncio.get_running_loop()
        _, tunnel = await loop.create_connection(cls, "127.0.0.1", port, ssl=context, server_hostname=name)
        await tunnel.ready
        return tunnel

    def open(self, protocol):
        """A stream, as the connection of such a client."""
        protocol.connection_made(Stream(self, protocol))

    def connection_made(self, transport):
        self.transport = transport
        self.h2.initiate_connection()
        # No case has to wait for another one.
        self.h2.increment_flow_control_window(1 << 30)
        self.flush()

    def flush(self):
        self.transport.write(self.h2.data_to_send())

    def data_received(self, data):
        for event in self.h2.receive_data(data):
            self.handle(event)
        self.flush()

    def handle(self, event):
        if isinstance(event, h2.events.RemoteSettingsChanged):
            setting = event.changed_settings.get(h2.settings.SettingCodes.ENABLE_CONNECT_PROTOCOL)
            if not self.ready.done():
                assert setting is not None and setting.new_value == 1, "no extended CONNECT is offered"
                self.ready.set_result(None)
            for stream in list(self.streams.values()):
                stream.pump()
        elif isinstance(event, h2.events.WindowUpdated):
            streams = [self.streams.get(event.stream_id)] if event.stream_id else list(self.streams.values())
            for stream in filter(None, streams):
                stream.pump()
        elif isinstance(event, h2.events.ConnectionTerminated):
            self.ended = True
        elif stream := self.streams.get(getattr(event, "stream_id", None)):
            stream.handle(event)

    def connection_lost(self, error):
        self.ended = True
        for stream in list(self.streams.values()):
            stream.lose(error or ConnectionResetError("the connection is gone"))


class Stream(asyncio.Transport):
    """One stream, as a connection of HTTP/1.1."""

    def __init__(self, tunnel, protocol):
        super().__init__({"peername": ("127.0.0.1", 0)})
        self.tunnel, self.protocol = tunnel, protocol
        self.id, self.request, self.waiting, self.closing, self.ended = None, b"", bytearray(), False, False

    def write(self, data):
        if self.closing:
            return
        if self.id is not None:
            self.waiting += data
            return self.pump()
        self.request += data
        if self.request.endswith(b"\r\n\r\n"):
            self.connect()

    def connect(self):
        first, *lines = self.request.decode().rstrip().split("\r\n")
        fields = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        key = fields["sec-websocket-key"].encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.accept = base64.b64encode(hashlib.sha1(key).digest()).decode()
        head = [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http")]
        head += [(":path", first.split(" ")[1]), (":authority", fields["host"])]
        head += [(name, value) for name, value in fields.items() if name not in OF_UPGRADES]
        self.id = self.tunnel.h2.get_next_available_stream_id()
        self.tunnel.streams[self.id] = self
        self.tunnel.h2.send_headers(self.id, head)
        self.tunnel.flush()

    def pump(self):
        """Sends what the windows let through. The server may have reset the stream in what is still to be handled."""
        with contextlib.suppress(h2.exceptions.StreamClosedError):
            self.send()
        self.tunnel.flush()

    def send(self):
        connection = self.tunnel.h2
        while self.waiting and not self.ended:
            room = min(connection.local_flow_control_window(self.id), connection.max_outbound_frame_size)
            if room <= 0:
                break
            connection.send_data(self.id, bytes(self.waiting[:room]))
            del self.waiting[:room]
        if self.closing and not self.waiting and not self.ended:
            self.ended = True
            connection.end_stream(self.id)

    def handle(self, event):
        if isinstance(event, h2.events.ResponseReceived):
            fields = dict(event.headers)
            answer = "HTTP/1.1 101 Switching\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
            if fields[":status"] != "200":
                answer = f"HTTP/1.1 {fields[':status']} Refused\r\n"
            else:
                fields["sec-websocket-accept"] = self.accept
            for name, value in fields.items():
                if not name.startswith(":"):
                    answer += f"{name}: {value}\r\n"
            self.protocol.data_received(answer.encode() + b"\r\n")
        elif isinstance(event, h2.events.DataReceived):
            with contextlib.suppress(h2.exceptions.StreamClosedError):
                self.tunnel.h2.acknowledge_received_data(event.flow_controlled_length, self.id)
            if event.data:
                self.protocol.data_received(event.data)
        elif isinstance(event, h2.events.StreamEnded):
            self.closing = True
            self.pump()
            self.lose(None)
        elif isinstance(event, h2.events.StreamReset):
            self.lose(ConnectionResetError(f"the stream was reset: {event.error_code}"))

    def lose(self, error):
        self.ended = self.closing = True
        if self.tunnel.streams.pop(self.id, None):
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, error)

    def close(self):
        self.closing = True
        self.pump()

    def abort(self):
        if not self.ended:
            with contextlib.suppress(h2.exceptions.StreamClosedError):
                self.tunnel.h2.reset_stream(self.id)
            self.tunnel.flush()
        self.lose(None)

    def is_closing(self):
        return self.closing
