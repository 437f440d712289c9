"""The link to the broker: one thread that connects, keeps connecting, and moves messages from the outbox.

The latest retained messages are kept here and sent again at every connect, because a broker may come back empty. The
link says `connected` only after the broker has accepted it.
"""

import logging
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from edgemeta.daemon.backoff import Backoff
from edgemeta.daemon.config import MqttConfig
from edgemeta.daemon.messages import OFFLINE, ONLINE
from edgemeta.daemon.mqtt_connection import Connection, LinkError
from edgemeta.daemon.outbox import Outbox, Outgoing
from edgemeta.daemon.secret import SecretError
from edgemeta.daemon.threads import guarded_thread

log = logging.getLogger(__name__)

STEADY_AFTER = 5.0
"""Seconds a connection must last before the next failure counts as a first one."""


class MqttLink:
    """Publishes what is offered while there is a broker. Any thread may offer, retain and ask."""

    def __init__(
        self, config: MqttConfig, client_id: str, availability: str, crashed: Callable[[BaseException], None]
    ) -> None:
        self._config = config
        self._client_id = client_id
        self._online = Outgoing(availability, ONLINE.encode(), 1, retain=True)
        self._offline = Outgoing(availability, OFFLINE.encode(), 1, retain=True)
        self._outbox = Outbox(config.queue)
        self._lock = threading.Lock()
        self._retained: dict[str, Outgoing] = {}
        self._unsent: dict[str, Outgoing] = {}
        self._quiet = threading.Condition()
        self._tried = threading.Event()
        self._closing = threading.Event()
        self._close_by = float("inf")
        self._connected_at = 0.0
        self._wake, self._waker = socket.socketpair()
        self._wake.setblocking(False)
        self._waker.setblocking(False)
        self._thread = guarded_thread("mqtt", self._run, crashed)
        self.connected = False
        self.connects = 0
        self.published = 0
        self.refused = 0

    def start(self, patience: float) -> None:
        """Begin to connect and go on trying for ever; return after the first try, or when patience (s) ends."""
        self._thread.start()
        self._tried.wait(patience)

    @property
    def queued(self) -> int:
        """Messages offered that the broker has not taken yet."""
        return len(self._outbox)

    def offer(self, message: Outgoing) -> bool:
        """Queue a message; False where the queue is full."""
        if not self._outbox.offer(message):
            return False
        self._rouse()
        return True

    def retain(self, message: Outgoing) -> None:
        """Send a retained message now, or as soon as there is a broker; a newer one of its topic takes its place."""
        with self._lock:
            self._retained[message.topic] = message
            self._unsent.pop(message.topic, None)
            self._unsent[message.topic] = message
        self._rouse()

    def flush(self, timeout: float) -> bool:
        """Wait until nothing is left to send; False where the time or the connection ended first."""
        with self._quiet:
            self._quiet.wait_for(lambda: self._is_quiet or not self.connected, timeout)
            return self._is_quiet

    def close(self, timeout: float) -> None:
        """Send what is left, say `offline`, disconnect; give up after `timeout` seconds."""
        self._close_by = time.monotonic() + timeout
        self._closing.set()
        self._rouse()
        self._thread.join(timeout + 0.5)
        if not self._thread.is_alive():
            self._wake.close()
            self._waker.close()

    @property
    def _is_quiet(self) -> bool:
        return not self._unsent and len(self._outbox) == 0

    def _rouse(self) -> None:
        with suppress(OSError):  # enough bytes are waiting to wake it, or the link is closed
            self._waker.send(b"\0")

    def _run(self) -> None:
        backoff = Backoff(self._config.retry.first, self._config.retry.cap)
        told = ""
        while not self._closing.is_set():
            connects = self.connects
            try:
                self._connection()
                return
            except (LinkError, SecretError) as error:
                reason = str(error)
            self._tried.set()
            if self.connects > connects:
                told = ""
                if time.monotonic() - self._connected_at > STEADY_AFTER:
                    backoff.reset()
            delay = backoff.next()
            log.log(logging.DEBUG if reason == told else logging.WARNING, "%s; next try in %.1f s", reason, delay)
            told = reason
            self._closing.wait(delay)

    def _connection(self) -> None:
        """Serve one connection until the link closes. Raises LinkError when it breaks before."""
        connection = Connection(self._config, self._client_id, will=self._offline)
        said_offline = False
        try:
            connection.open()
            log.info("connected to broker %s:%d", self._config.host, self._config.port)
            with self._lock:
                self._unsent = dict(self._retained)
            self._connected_at = time.monotonic()
            self.connects += 1
            self.connected = True
            self._tried.set()
            connection.publish(self._online)
            said_offline = self._serve(connection)
        finally:
            with self._quiet:
                self.connected = False
                self._quiet.notify_all()
            connection.close(politely=said_offline)
            self._outbox.give_back()

    def _serve(self, connection: Connection) -> bool:
        """Move messages until the link closes; then say `offline`, and return whether the broker took that.

        Where it did not, the connection must be dropped, so that the broker publishes the last will.
        """
        while not (self._closing.is_set() and self._is_quiet):
            if time.monotonic() > self._close_by:
                return False
            self._fill(connection)
            self._step(connection)
        connection.publish(self._offline)
        while connection.in_flight and time.monotonic() < self._close_by:
            self._step(connection)
        return connection.in_flight == 0

    def _fill(self, connection: Connection) -> None:
        """Send while the window has room: retained messages first."""
        while connection.has_room:
            with self._lock:
                topic = next(iter(self._unsent), None)
                message = self._unsent.pop(topic) if topic is not None else None
            message = message or self._outbox.send()
            if message is None:
                return
            connection.publish(message)

    def _step(self, connection: Connection) -> None:
        for message, taken in connection.step(self._wake, timeout=1.0):
            self._settle(message, taken)

    def _settle(self, message: Outgoing, taken: bool) -> None:
        if not message.retain:
            self._outbox.done(message)
        if taken:
            self.published += 1
            if message.taken is not None:
                message.taken(message)
        else:
            self.refused += 1
            if self.refused == 1:
                log.warning("the broker refuses messages to %s; further refusals are only counted", message.topic)
        with self._quiet:
            self._quiet.notify_all()
