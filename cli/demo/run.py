"""Runs the demo: broker, subscriber, service; receives until the time is over; then stops the service first."""

import asyncio
import importlib
import logging
import os
import queue
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from types import MappingProxyType, TracebackType

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from edgemeta.cli.demo.service import DEVICE, STOP_TIMEOUT_S, DemoError, DemoService, write_config
from edgemeta.cli.demo.tally import Arrival, Tally, Truth
from edgemeta.cli.demo.view import View
from edgemeta.cli.options import load_model
from edgemeta.daemon.capture.source import SourceSpec
from edgemeta.daemon.capture.sources.registry import kind_of, make_source
from edgemeta.daemon.capture.sources.synthetic import PHOTOGRAPHS, show_of
from edgemeta.daemon.config.source_address import SourceAddress
from edgemeta.daemon.messages.records import OFFLINE, CameraState
from edgemeta.model.zoo import DEFAULT
from edgemeta.plugins.drawn.show import Show

BASE = "edgemeta"
START_TIMEOUT_S, SLOW_START_TIMEOUT_S = 30.0, 600.0
"""For the first frame; slow: of a backend that was asked for, such as a simulation."""

SLOW_STOP_TIMEOUT_S = 90.0
"""For the last frame of such a backend."""

POLL_S = 0.1
FAREWELL_S = 5.0

TIMEOUT_S = 10.0

BROKER_STARTS_WITHIN_S = 10.0


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
        if not self._ready.wait(BROKER_STARTS_WITHIN_S):
            raise DemoError(f"the demo's broker did not start within {BROKER_STARTS_WITHIN_S:.0f} seconds")
        if self._error is not None:
            raise DemoError(f"the demo's broker did not start: {self._error}") from self._error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(BROKER_STARTS_WITHIN_S)

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


class Subscriber:
    """Subscribed to `topics` as long as the `with` block lasts. Raises DemoError if the broker does not answer."""

    def __init__(self, host: str, port: int, topics: str) -> None:
        self._host, self._port, self._topics = host, port, topics
        self._inbox: queue.SimpleQueue[Arrival] = queue.SimpleQueue()
        self._subscribed = threading.Event()
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id="edgemeta-demo-view")
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_message = self._on_message

    def __enter__(self) -> "Subscriber":
        self._client.connect(self._host, self._port)
        self._client.loop_start()
        if not self._subscribed.wait(TIMEOUT_S):
            raise DemoError(f"the demo's broker did not accept a subscriber within {TIMEOUT_S:.0f} seconds")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def next(self, timeout: float) -> Arrival | None:
        """Return the next message, None after `timeout` seconds without one."""
        try:
            return self._inbox.get(timeout=timeout)
        except queue.Empty:
            return None

    def _on_connect(
        self,
        client: mqtt.Client,
        userdata: object,
        flags: mqtt.ConnectFlags,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        client.subscribe(self._topics, qos=1)

    def _on_subscribe(
        self,
        client: mqtt.Client,
        userdata: object,
        mid: int,
        reasons: list[ReasonCode],
        properties: Properties | None,
    ) -> None:
        self._subscribed.set()

    def _on_message(self, client: mqtt.Client, userdata: object, message: mqtt.MQTTMessage) -> None:
        self._inbox.put(Arrival(message.topic, bytes(message.payload), datetime.now(timezone.utc)))


def run_demo(
    source: SourceAddress,
    seconds: float,
    view: View,
    page: int | None = None,
    model: str | None = None,
    keys: Mapping[str, object] = MappingProxyType({}),
) -> Tally:
    """Run the whole demo and return the subscriber's tally; `seconds` 0: until Ctrl-C.

    The time counts from the first frame message. A clip that ends, ends the demo. `page` is the live page's port, None
    for none. `model` is the name or path of a model, None for the default. `keys`: others of the config, whose backend
    may be slow. Raises SourceError for an address that cannot be understood and DemoError where a part of the demo
    cannot run.
    """
    make_source(SourceSpec(source))
    if page is not None:
        check_free(page)
    tally = Tally(truth_of(known_show(source, model)))
    with (
        tempfile.TemporaryDirectory(prefix="edgemeta-demo-") as folder,
        DemoBroker() as broker,
        Subscriber(broker.host, broker.port, f"{BASE}/{DEVICE}/#") as subscriber,
        DemoService(
            write_config(Path(folder), source, broker.host, broker.port, page, model, keys),
            SLOW_STOP_TIMEOUT_S if keys else STOP_TIMEOUT_S,
        ) as service,
        view,
    ):
        try:
            for _ in _turns(tally, subscriber, service, seconds, SLOW_START_TIMEOUT_S if keys else START_TIMEOUT_S):
                view.show(tally)
        except KeyboardInterrupt:
            view.interrupted()
        service.stop()
        _hear_out(tally, subscriber)
        view.show(tally, last=True)
    return tally


def check_free(port: int) -> None:
    """Raise DemoError if a program already listens at this port of 127.0.0.1."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        raise DemoError(f"the live page cannot use port {port}: {os.strerror(error.errno or 0).lower()}") from error


def show_for(source: SourceAddress) -> Show | None:
    """Return the show behind a synthetic source, None for any other."""
    return show_of(source) if kind_of(source) == "synthetic" else None


def known_show(source: SourceAddress, model: str | None) -> Show | None:
    """The show behind a synthetic source if the model knows all its labels; drawn scenes only with the default."""
    show = show_for(source)
    is_asked = model is None or f"show={PHOTOGRAPHS}" in source.written
    return show if show and is_asked and show.labels <= set(load_model(model or DEFAULT).labels) else None


def truth_of(show: Show | None) -> Truth | None:
    """Return what the frames show; the service counts frames from 1, the show from 0."""
    return None if show is None else lambda sequence: show.truth(sequence - 1)


def _turns(tally: Tally, subscriber: Subscriber, service: DemoService, seconds: float, start: float) -> Iterator[None]:
    """Receive messages until the time is over; yields after every message and every timeout. start: for a frame."""
    end = time.monotonic() + start
    while True:
        arrival = subscriber.next(POLL_S)
        if arrival is not None:
            first = tally.frames == 0
            tally.add(arrival)
            if first and tally.frames:
                end = time.monotonic() + seconds if seconds else float("inf")
        yield
        if tally.status is not None and tally.status.status is CameraState.ENDED:
            return
        if tally.frames == 0 and tally.status is not None and tally.status.status is CameraState.FAILED:
            raise DemoError(tally.status.reason or f"no frame from {tally.status.source}")
        if time.monotonic() >= end:
            if tally.frames == 0:
                raise DemoError(f"no frame within {start:.0f} seconds")
            return
        if arrival is None:
            service.check()


def _hear_out(tally: Tally, subscriber: Subscriber) -> None:
    """Receive the last messages of the service: frames, counts and `offline`."""
    end = time.monotonic() + FAREWELL_S
    while tally.availability is not None and time.monotonic() < end:
        if tally.availability == OFFLINE and tally.frames >= tally.published:
            return
        arrival = subscriber.next(POLL_S)
        if arrival is not None:
            tally.add(arrival)
