"""The link to the broker: one thread that connects, keeps connecting, and moves messages out of the outbox.

The latest retained messages are kept here and sent again at every connect, because a broker may come back empty. The
link's state is `connected` only while the broker acknowledges what it is sent. A connection whose acknowledgements stay
away is given up: what was not acknowledged is sent again on the next one.
"""

import logging
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from edgemeta.daemon.config.broker import MqttConfig
from edgemeta.daemon.config.secrets import SecretError
from edgemeta.daemon.messages.broker_state import BrokerState
from edgemeta.daemon.messages.records import OFFLINE, ONLINE, BrokerFailures, BrokerStats
from edgemeta.daemon.mqtt.connection import Connection
from edgemeta.daemon.mqtt.connection_listener import ConnectionListener
from edgemeta.daemon.mqtt.outbox.delivery import Delivery, OutgoingMessage
from edgemeta.daemon.mqtt.outbox.queue import Outbox
from edgemeta.daemon.mqtt.state import SLOW_RETRY, LinkError, LinkStatus
from edgemeta.daemon.mqtt.subscriptions import Handler, Limit, SubscriptionQueue
from edgemeta.daemon.runtime.backoff import Backoff, jittered
from edgemeta.daemon.runtime.heartbeat import Heartbeat
from edgemeta.daemon.runtime.rate_limiter import RateLimiter
from edgemeta.daemon.runtime.threads import guarded_thread

log = logging.getLogger(__name__)

STEADY_AFTER = 5.0
"""Seconds a connection on which messages are acknowledged must last before the next failure counts as a first one."""

LOOKS = 10
"""Times that the link looks at least, within `mqtt.ack_timeout`, for acknowledgements that do not come."""

LATE_AFTER = 2.0
"""Seconds that an acknowledgement may be awaited before the state says so."""

CONNECTS_WITHIN = 60.0
SERVES_WITHIN = 15.0
"""Seconds after which the link counts as hung: resolving a name and connecting may take long, one step may not."""

FLUSH_TICK = 0.005
"""Seconds between two looks whether all is sent."""

SUSPICIOUS = 3
"""So many connections accepted in a row, none of them steady and no failed try in between, tell of a stolen client id:
brokers that restart and networks that fail refuse some. MQTT 3.1.1 cannot say it, and some brokers of MQTT 5 do not."""


class Receipts(Protocol):
    """Who hears, from the link's thread, of each message that the broker has taken."""

    def taken(self, delivery: Delivery) -> None:
        """Count one message."""


class MqttLink:
    """Publishes what it is given as soon as there is a broker. Any thread may send and ask."""

    def __init__(
        self,
        config: MqttConfig,
        client_id: str,
        availability: str,
        outbox: Outbox,
        receipts: Receipts,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._config = config
        self._client_id = client_id
        self._place = f"{config.host}:{config.port}"
        self._online = OutgoingMessage(availability, ONLINE.encode(), 1, retain=True)
        self._offline = OutgoingMessage(availability, OFFLINE.encode(), 1, retain=True)
        self._outbox = outbox
        self._receipts = receipts
        self.inbox = SubscriptionQueue(on_fatal)
        self._pace = RateLimiter(config.outbox.max_replayed_per_second)
        self.followers: list[ConnectionListener] = []
        self._lock = threading.Lock()
        self._retained: dict[str | OutgoingMessage, OutgoingMessage] = {}
        self._unsent: dict[str | OutgoingMessage, OutgoingMessage] = {}
        self._announced: set[Delivery] = set()
        self._turn = threading.Lock()
        self._accepted = False
        self._present: Connection | None = None
        self._tried = threading.Event()
        self._closing = threading.Event()
        self._close_by = float("inf")
        self._connected_at = 0.0
        self._acknowledged = False
        self._short_lived = 0
        self._failures: Counter[str] = Counter()
        self._last_failure: str | None = None
        self._wake, self._waker = socket.socketpair()
        self._wake.setblocking(False)
        self._waker.setblocking(False)
        self._thread = guarded_thread("mqtt", self._run, on_fatal)
        outbox.ready = self._rouse
        self.status = LinkStatus(BrokerState.CONNECTING)
        self.heartbeat = Heartbeat("mqtt")
        self.heartbeats = [self.heartbeat, self.inbox.heartbeat]
        self.connects = 0
        self.published = 0
        self.refused = 0

    def subscribe(self, topic_filter: str, handler: Handler, limit: Limit | None = None) -> None:
        """Have `handler` called for what comes on these topics, at every connection. Only before the start."""
        self.inbox.subscribe(topic_filter, handler, limit)

    def start(self, patience: float) -> None:
        """Begin to connect and go on trying for ever; return after the first try, or when patience (s) ends."""
        self.inbox.start()
        self._thread.start()
        self._tried.wait(patience)

    @property
    def connected(self) -> bool:
        """Whether the broker has accepted the present connection."""
        return self._accepted

    @property
    def problem(self) -> str | None:
        """What is wrong, in words; None while connected, and before the first try."""
        return self.status.reason

    @property
    def stats(self) -> BrokerStats:
        """Sum up the connections since the start."""
        counts = {name: self._failures[name] for name in BrokerFailures.model_fields}
        return BrokerStats(
            connects=self.connects,
            published=self.published,
            refused=self.refused,
            failures=BrokerFailures(**counts),
            last_failure=self._last_failure,
        )

    def send(self, message: OutgoingMessage) -> None:
        """Send a message now, or as soon as there is a broker.

        What is kept waits in the outbox, in order. Of retained messages, the newest of each topic takes the older one's
        place. Any other is sent on the present connection or not at all.
        """
        with self._lock:
            if message.retain:
                self._retained[message.topic] = message
            if not message.kept and (message.retain or self.connected):
                key = message.topic if message.retain else message
                self._unsent.pop(key, None)
                self._unsent[key] = message
        if message.kept:
            self._outbox.offer(message)
        if not self._send_from_here():
            self._rouse()

    def _send_from_here(self) -> bool:
        """Send what is live from the caller's thread, which never waits for it: to wake the link's would cost more.

        Returns False where the link's thread must do it, or go on with it.
        """
        if not self._turn.acquire(blocking=False):
            return False
        try:
            if self._present is None:
                return True  # it looks at what waits before it lets anybody send
            self._fill_live(self._present)
            return self._present.all_written
        finally:
            self._turn.release()

    def flush(self, timeout: float) -> bool:
        """Wait until nothing is left to send but late messages; False where time or connection ended first."""
        deadline = time.monotonic() + timeout
        while not self._is_quiet and self.connected and time.monotonic() < deadline:
            time.sleep(FLUSH_TICK)  # nobody is told of each message, so that a message costs nothing more
        return self._is_quiet

    def close(self, timeout: float) -> None:
        """Send what is live, say `offline`, disconnect; give up after `timeout` s. The rest stays in the outbox."""
        self._close_by = time.monotonic() + timeout
        self._closing.set()
        self._rouse()
        self._thread.join(timeout)
        self.inbox.stop(max(0.0, self._close_by - time.monotonic()))

    @property
    def _is_quiet(self) -> bool:
        with self._lock:
            return not self._unsent and not self._announced and self._outbox.live == 0

    def _rouse(self) -> None:
        with suppress(OSError):  # enough bytes are waiting to wake it, or the link is closed
            self._waker.send(b"\0")

    def _run(self) -> None:
        with self._wake, self._waker:
            self._keep_connected()

    def _keep_connected(self) -> None:
        backoff = Backoff(self._config.retry.initial_delay, self._config.retry.max_delay)
        while not self._closing.is_set():
            connects = self.connects
            self.heartbeat.expect_within("connecting to the broker", CONNECTS_WITHIN)
            failure = self._attempt()
            if failure is None:
                return
            if self.connects > connects:
                failure = self._judge(failure, backoff)
            else:
                self._short_lived = 0
            delay = jittered(self._config.retry.max_delay) if failure.state in SLOW_RETRY else backoff.next()
            self._tell(failure, delay)
            self._tried.set()
            self.heartbeat.expect_within("waiting for the next attempt", delay + SERVES_WITHIN)
            self._closing.wait(delay)

    def _judge(self, failure: LinkError, backoff: Backoff) -> LinkError:
        """Look at how long the broken connection lasted; return what that makes of its failure."""
        if self._acknowledged and time.monotonic() - self._connected_at > STEADY_AFTER:
            backoff.reset()
            self._short_lived = 0
            return failure
        self._short_lived = self._short_lived + 1 if failure.state is BrokerState.LOST else 0
        if self._short_lived < SUSPICIOUS:
            return failure
        return LinkError(
            BrokerState.CLIENT_ID_TAKEN,
            f"broker {self._place} accepted {self._short_lived} connections in a row, and each was lost soon after: "
            f"another client probably uses the client id {self._client_id!r}, too",
        )

    def _tell(self, failure: LinkError, delay: float) -> None:
        """Log a failure once as a warning while it stays the same, and set the status."""
        again = self.status.reason == str(failure)
        level = logging.DEBUG if again else logging.WARNING
        fields = {"broker": self._place, "state": failure.state.value}
        log.log(level, "%s; next try in %.1f s", failure, delay, extra=fields)
        if not again:
            self.status = LinkStatus(failure.state, str(failure))
        self._failures[failure.state.value] += 1
        self._last_failure = str(failure)

    def _attempt(self) -> LinkError | None:
        """Connect and serve the connection; return why it ended, None where the link closed.

        The error is a new one: the frames in the traceback of the one that was raised would keep the connection alive.
        """
        try:
            self._connection()
        except LinkError as error:
            return LinkError(error.state, str(error))
        except SecretError as error:
            return LinkError(BrokerState.REFUSED_LOGIN, str(error))
        return None

    def _connection(self) -> None:
        """Serve one connection until the link closes. Raises LinkError when it breaks before."""
        connection = Connection(self._config, self._client_id, self._offline, self._wake)
        said_offline = False
        try:
            connection.open()
            with self._lock:
                self._unsent = dict(self._retained.items())
                self._announced.clear()
            self._connected_at = time.monotonic()
            self._acknowledged = False
            self.connects += 1
            self._outbox.begin()
            self._accepted = True
            self._tried.set()
            self.inbox.begin(connection)
            for follower in self.followers:
                follower.begun(connection)
            connection.publish(Delivery(self._online))
            with self._turn:
                self._present = connection
            said_offline = self._serve(connection)
        finally:
            with self._turn:
                self._present = None
            self._accepted = False
            if self.status.state is BrokerState.CONNECTED:
                self.status = LinkStatus(BrokerState.CONNECTING)
            for follower in self.followers:
                follower.ended(connection)
            self._outbox.end()
            connection.close(politely=said_offline)

    def _serve(self, connection: Connection) -> bool:
        """Move messages until the link closes; then say `offline`, and return whether the broker took that.

        Where it did not, the connection must be dropped, so that the broker publishes the last will.
        """
        while not (self._closing.is_set() and self._is_quiet):
            if time.monotonic() > self._close_by:
                return False
            self.heartbeat.expect_within("exchanging messages with the broker", SERVES_WITHIN)
            with self._turn:
                self.inbox.tend(connection)
                timeout = self._fill(connection)
            for follower in self.followers:
                follower.step(connection)
            self._step(connection, min(timeout, self._config.ack_timeout / LOOKS))
        with self._turn:
            self._present = None
        connection.publish(Delivery(self._offline))
        while connection.in_flight and time.monotonic() < self._close_by:
            self._step(connection, timeout=1.0)
        return connection.in_flight == 0

    def _fill(self, connection: Connection) -> float:
        """Send while the window has room: retained messages, then live ones, then late ones at their pace.

        Returns the seconds after which there may be more to send without anybody saying so.
        """
        self._fill_live(connection)
        while self._outbox.has_late_read and connection.has_room_for_late and not self._closing.is_set():
            now = time.monotonic_ns()
            if self._pace.wait_ns(now):
                return 0.02
            delivery = self._outbox.next_late()
            if delivery is None:
                break
            self._pace.take(now)
            connection.publish(delivery)
        return 1.0

    def _fill_live(self, connection: Connection) -> None:
        while (self._unsent or self._outbox.has_live) and connection.has_room:
            delivery = self._next_unsent() or self._outbox.next_live()
            if delivery is not None:
                connection.publish(delivery)

    def _next_unsent(self) -> Delivery | None:
        with self._lock:
            key = next(iter(self._unsent), None)
            if key is None:
                return None
            delivery = Delivery(self._unsent.pop(key))
            self._announced.add(delivery)
            return delivery

    def _step(self, connection: Connection, timeout: float) -> None:
        left = max(0.0, self._close_by - time.monotonic())
        ready = connection.wait(min(timeout, left))
        with self._turn:
            answered = connection.step(ready)
        for delivery, taken in answered:
            self._settle(delivery, taken)
        self._look_after_acknowledgements(connection)

    def _look_after_acknowledgements(self, connection: Connection) -> None:
        """Set the state by what the broker acknowledges. Raises LinkError where it has owed too long."""
        overdue, limit = connection.overdue, self._config.ack_timeout
        if overdue > limit:
            raise LinkError(
                BrokerState.UNACKNOWLEDGED,
                f"broker {self._place} has not acknowledged a message for {limit:g} s",
            )
        if overdue > LATE_AFTER:
            if self.status.state is not BrokerState.UNACKNOWLEDGED:
                reason = f"broker {self._place} has not acknowledged a message for {LATE_AFTER:g} s"
                self.status = LinkStatus(BrokerState.UNACKNOWLEDGED, reason)
        elif connection.acknowledged and self.status.state is not BrokerState.CONNECTED:
            self.status = LinkStatus(BrokerState.CONNECTED)
            if not self._acknowledged:
                log.info("connected to broker %s", self._place, extra={"broker": self._place, "state": "connected"})
            self._acknowledged = True

    def _settle(self, delivery: Delivery, taken: bool) -> None:
        """Count a message, then forget it: whoever waits until nothing is left finds it counted."""
        if taken:
            self.published += 1
            self._receipts.taken(delivery)
        else:
            self.refused += 1
            if self.refused == 1:
                log.warning(
                    "the broker refuses messages to %s; further refusals are only counted", delivery.message.topic
                )
        self._outbox.settle(delivery)
        if self._announced:
            with self._lock:
                self._announced.discard(delivery)
                if not delivery.message.payload and self._retained.get(delivery.message.topic) is delivery.message:
                    del self._retained[delivery.message.topic]  # a cleared topic has nothing to be sent again
