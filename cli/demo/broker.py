"""A small MQTT 3.1.1 broker inside this process, on a free loopback port, for the demo only."""

import asyncio
import importlib
import logging
import threading
from types import TracebackType

from edgemeta.cli.demo.errors import DemoError

START_TIMEOUT_S = 10.0


class DemoBroker:
    """An amqtt broker in a separate thread; `with DemoBroker() as broker:` has `broker.port`.

    Only programs on this machine can connect. Raises DemoError if amqtt is missing or does not start.
    """

    host = "127.0.0.1"

    def __init__(self) -> None:
        self.port = 0
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="demo-broker", daemon=True)

    def __enter__(self) -> "DemoBroker":
        try:
            self._amqtt = importlib.import_module("amqtt.broker")
            self._adapters = importlib.import_module("amqtt.adapters")
        except ImportError as error:
            raise DemoError(f"edgemeta demo needs the package amqtt ({error}): pip install 'edgemeta[demo]'") from error
        for name in ("amqtt", "transitions"):  # its routine chatter, which says nothing about the demo
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._thread.start()
        if not self._ready.wait(START_TIMEOUT_S):
            raise DemoError(f"the demo's broker did not start within {START_TIMEOUT_S:.0f} seconds")
        if self._error is not None:
            raise DemoError(f"the demo's broker did not start: {self._error}") from self._error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(START_TIMEOUT_S)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:  # noqa: BLE001 - the thread's owner raises it again
            self._error = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        # An external listener lets us own the socket: port 0 is a free one, and no other address is ever bound.
        broker = self._amqtt.Broker(
            {
                "listeners": {"default": {"type": "external"}},
                "plugins": {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}},
            }
        )
        await broker.start()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await broker.external_connected(
                    self._adapters.StreamReaderAdapter(reader), self._adapters.StreamWriterAdapter(writer), "default"
                )
            finally:
                writer.close()

        server = await asyncio.start_server(connected, self.host, 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        await broker.shutdown()
