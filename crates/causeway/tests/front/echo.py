"""A WebSocket server that sends every message back, as the testee of the Autobahn suite does. Prints its port."""

import asyncio

from autobahn.asyncio.websocket import WebSocketServerFactory, WebSocketServerProtocol
from autobahn.websocket.compress import PerMessageDeflateOffer, PerMessageDeflateOfferAccept


class Echo(WebSocketServerProtocol):
    def onMessage(self, payload, isBinary):
        self.sendMessage(payload, isBinary)


def accept(offers):
    for offer in offers:
        if isinstance(offer, PerMessageDeflateOffer):
            return PerMessageDeflateOfferAccept(offer)


async def main():
    factory = WebSocketServerFactory()
    factory.protocol = Echo
    factory.setProtocolOptions(failByDrop=False, perMessageCompressionAccept=accept, openHandshakeTimeout=60)
    server = await asyncio.get_running_loop().create_server(factory, "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
