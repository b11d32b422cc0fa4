"""The cases of the Autobahn test suite, whose drivers need Python 2, driven by today's autobahn: each straight to a server,
through a gateway over HTTP/1.1, and over HTTP/2. Arguments are the ports of the server, of the gateway, of the gateway with
TLS, and its authority. What a case finds must be good, and the same on all ways."""

import asyncio
import builtins
import importlib.abc
import importlib.util
import os
import re
import ssl
import sys
import types

from autobahn.asyncio.websocket import WebSocketClientFactory, WebSocketClientProtocol
from h2_tunnel import Tunnel

SUITE = importlib.util.find_spec("autobahntestsuite").submodule_search_locations[0]
# Messages of the cases that repeat the same many times.
ROUNDS = 5
# 65,536 fragments of one message, which keep Python busy and nobody else.
SLOW = {"Case9_3_1", "Case9_4_1"}
GOOD = {"OK", "NON-STRICT", "INFORMATIONAL"}
# The suite's patience is for a machine that does nothing else.
PATIENCE = 5


class Loader(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Reads a case for Python 3. Its strings are bytes: letters up to 255 stand for them."""

    def find_spec(self, name, path, target=None):
        file = os.path.join(SUITE, "case", f"{name}.py")
        if name == "case" or os.path.isfile(file):
            return importlib.util.spec_from_loader(name, self, origin=file)

    def exec_module(self, module):
        # The suite itself leaves this one out, and it wants Twisted.
        if module.__name__ == "case9_9_1":
            return
        with open(module.__spec__.origin, encoding="latin-1") as file:
            text = file.read()
        for old, new in [
            (r"^( *)print\b.*", r"\1pass"),
            (r"\(object, Case, \)", "(Case, )"),
            (r"v\.validate\(vss\[:i\]\)", "v.validate(vss[:i].encode('latin-1'))"),
            (r"binascii\.b2a_hex\(", "repr("),
            (r"\.tostring\(\)", ".tobytes().decode('latin-1')"),
            (r"(request|accept)NoContextTakeover\b", r"\1_no_context_takeover"),
            (r"(request|accept)MaxWindowBits\b", r"\1_max_window_bits"),
            (r"len\(self\.payload\) / ", "len(self.payload) // "),
        ]:
            text = re.sub(old, new, text, flags=re.MULTILINE)
        exec(compile(text, module.__spec__.origin, "exec"), module.__dict__)


def load():
    builtins.xrange = range
    resources = types.ModuleType("pkg_resources")
    resources.resource_filename = lambda _, path: os.path.join(SUITE, path)
    sys.modules.setdefault("pkg_resources", resources)
    sys.meta_path.insert(0, Loader())
    # The module of the base class has the name of its package.
    import case

    case.Case.compare = lambda self, one, other: octets(one) == octets(other)
    spec = importlib.util.spec_from_file_location("cases", os.path.join(SUITE, "case", "__init__.py"))
    cases = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(cases)
    for each in cases.Cases:
        each.COUNT = min(getattr(each, "COUNT", 0), ROUNDS)
    return [each for each in cases.Cases if each.__name__ not in SLOW]


def octets(value):
    """The same with bytes for strings."""
    if isinstance(value, str):
        return value.encode("latin-1")
    if isinstance(value, (list, tuple)):
        return [octets(each) for each in value]
    return value


class Fuzzer(WebSocketClientProtocol):
    """What a case has of the suite's own driver."""

    connectionWasOpen = False
    createWirelog = False

    def begin(self, Case):
        self.done = asyncio.get_running_loop().create_future()
        self.rxFrameStats, self.txFrameStats = {}, {}
        self.case = Case(self)
        return self

    def onOpen(self):
        self.connectionWasOpen = True
        self.case.onOpen()

    def onMessage(self, payload, isBinary):
        self.case.onMessage(payload, isBinary)

    def onPing(self, payload):
        super().onPing(payload)
        self.case.onPing(payload)

    def onPong(self, payload):
        self.case.onPong(payload)

    def onClose(self, wasClean, code, reason):
        self.case.onClose(wasClean, code, reason)

    def connection_lost(self, error):
        super().connection_lost(error)
        self.case.onConnectionLost(self.failedByMe)
        if not self.done.done():
            self.done.set_result(None)

    def enableWirelog(self, enable):
        pass

    def logTxFrame(self, header, *_):
        self.txFrameStats[header.opcode] = self.txFrameStats.get(header.opcode, 0) + 1

    def logRxFrame(self, header, *_):
        self.rxFrameStats[header.opcode] = self.rxFrameStats.get(header.opcode, 0) + 1

    def later(self, delay, run):
        def unless_closed():
            if self.state != self.STATE_CLOSED:
                run()

        self.factory.loop.call_later(delay, unless_closed)

    def continueLater(self, delay, run, tag=None):
        self.later(delay, run)

    def killAfter(self, delay):
        self.later(delay * PATIENCE, self._fail_connection)

    def closeAfter(self, delay):
        self.later(delay * PATIENCE, self.sendClose)

    def sendFrame(self, opcode, payload=b"", **options):
        super().sendFrame(opcode, octets(payload), **options)

    def sendMessage(self, payload, *args, **options):
        super().sendMessage(octets(payload), *args, **options)

    def sendMessageFrameData(self, payload, sync=False):
        return super().sendMessageFrameData(octets(payload), sync)

    def sendCloseFrame(self, code=None, reasonUtf8=None, isReply=False):
        super().sendCloseFrame(code, octets(reasonUtf8), isReply)


class Way:
    """How a case gets to the server. Over HTTP/2 cases share a connection while there is one."""

    def __init__(self, port, authority=None, over_h2=False):
        self.port, self.authority, self.over_h2 = port, authority, over_h2
        self.tunnel, self.turn = None, asyncio.Lock()

    async def begin(self, fuzzer):
        if self.over_h2:
            async with self.turn:
                if self.tunnel is None or self.tunnel.ended:
                    self.tunnel = await Tunnel.connect(self.port, self.authority)
            return self.tunnel.open(fuzzer)
        tls = {}
        if self.authority:
            tls = {"ssl": ssl.create_default_context(cafile=self.authority), "server_hostname": "localhost"}
        await asyncio.get_running_loop().create_connection(lambda: fuzzer, "127.0.0.1", self.port, **tls)


async def run(Case, way):
    """What a case found: of its messages, of the end, and the code of the end; whether that is sure; and why."""
    factory = WebSocketClientFactory(f"ws://localhost:{way.port}/")
    factory.protocol = Fuzzer
    factory.logFrames = True
    factory.setProtocolOptions(failByDrop=False, openHandshakeTimeout=60, closeHandshakeTimeout=20)
    fuzzer = factory().begin(Case)
    await way.begin(fuzzer)
    await asyncio.wait_for(fuzzer.done, 120)
    case = fuzzer.case
    found = [case.behavior, case.behaviorClose, fuzzer.remoteCloseCode]
    # A server that gives a client up, with bytes of it unread, resets the connection: the client may miss its last words.
    # Of what the suite has no opinion on (it sends on after its own close), either may come of it, with and without us.
    is_sure = case.expectedClose.get("closedByMe", False) and case.behavior != "INFORMATIONAL"
    return found, is_sure, f"{case.result} {case.resultClose}"


async def main(server, plain, secure, authority):
    ways = {
        "direct": Way(server),
        "HTTP/1.1": Way(plain),
        "HTTP/2 with TLS": Way(secure, authority, over_h2=True),
        "HTTP/1.1 with TLS": Way(secure, authority),
        "HTTP/2": Way(plain, over_h2=True),
    }
    seats = asyncio.Semaphore(24)
    bad = []

    async def compare(Case):
        case = Case.__name__.removeprefix("Case").replace("_", ".")
        # Large messages and compression go the first three ways only.
        is_large = case.startswith(("9.", "12.", "13."))
        async with seats:
            found = {name: await run(Case, way) for name, way in list(ways.items())[: 3 if is_large else 5]}
        for way, (what, is_sure, why) in found.items():
            direct = found["direct"][0]
            if not GOOD.issuperset(what[:2]) or (is_sure and what != direct):
                bad.append(f"{case} {way}: {what} ({why}), direct {direct}")

    cases = load()
    await asyncio.gather(*(compare(Case) for Case in cases))
    for each in bad:
        print(each)
    print(f"{len(cases)} cases, {len(bad)} bad")


if __name__ == "__main__":
    server, plain, secure = map(int, sys.argv[1:4])
    asyncio.run(main(server, plain, secure, sys.argv[4]))
