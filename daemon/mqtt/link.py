"""The link to the broker: one thread that connects, keeps connecting, and moves messages out of the outbox.

Only this thread sends and receives; others put messages into queues and wake it. The link's state is `connected` only
while the broker acknowledges messages. A connection on which acknowledgements are overdue is dropped; what was not
acknowledged is sent again on the next one.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from edgemeta.daemon.config.broker import MqttConfig
from edgemeta.daemon.config.secrets import SecretError
from edgemeta.daemon.messages.broker_state import BrokerState
from edgemeta.daemon.messages.records import OFFLINE, ONLINE
from edgemeta.daemon.messages.stats import BrokerStats
from edgemeta.daemon.mqtt.connection import Connection
from edgemeta.daemon.mqtt.failures import STEADY_AFTER, FailureTracker
from edgemeta.daemon.mqtt.limits import BrokerLimits
from edgemeta.daemon.mqtt.outbox.delivery import Delivery, OutgoingMessage
from edgemeta.daemon.mqtt.outbox.queue import Outbox
from edgemeta.daemon.mqtt.refusals import Refusals
from edgemeta.daemon.mqtt.sender import DeliveryListener, Sender
from edgemeta.daemon.mqtt.state import LimitsError, LinkError, LinkStatus
from edgemeta.daemon.mqtt.status_tracker import StatusTracker
from edgemeta.daemon.mqtt.subscriber import Subscriber
from edgemeta.daemon.mqtt.subscriptions import Handler, Limit, SubscriptionQueue
from edgemeta.daemon.mqtt.suspects import Suspects
from edgemeta.daemon.mqtt.wakeup import Wakeup
from edgemeta.daemon.runtime.clock import Clock
from edgemeta.daemon.runtime.deadline import Deadline
from edgemeta.daemon.runtime.heartbeat import Heartbeat
from edgemeta.daemon.runtime.threads import guarded_thread

log = logging.getLogger(__name__)


class ConnectionListener(Protocol):
    """Follows each connection from its acceptance to its end. Called in the link's thread, so it must not block."""

    def connected(self, subscriber: Subscriber, limits: BrokerLimits) -> None:
        """The broker has accepted the connection; limits: what it takes."""

    def poll(self, subscriber: Subscriber) -> None:
        """Called several times a second while the connection lasts."""

    def disconnected(self, subscriber: Subscriber) -> None:
        """The connection has ended."""


CHECK_EVERY = 0.2
"""Seconds, at most, between two checks for overdue acknowledgements, the keepalive and what listeners have to do."""

CHECKS = 10
"""The least number of such checks within `mqtt.ack_timeout`."""

CONNECTS_WITHIN = 60.0
SERVES_WITHIN = 15.0
"""Seconds after which the link counts as hung: resolving a name and connecting may take long, one step may not."""

CLOCK_CHECK = 0.25
"""Seconds between two looks at the clock, after a certificate was not accepted."""

FLUSH_TICK = 0.005
"""Seconds between two checks whether everything is sent."""


class MqttLink:
    """Publishes messages as soon as there is a broker. Any thread may send and read."""

    def __init__(
        self,
        config: MqttConfig,
        client_id: str,
        availability: str,
        outbox: Outbox,
        deliveries: DeliveryListener,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._config = config
        self._client_id = client_id
        self._broker = f"{config.host}:{config.port}"
        self._offline = OutgoingMessage(availability, OFFLINE.encode(), 1, retain=True)
        self._outbox = outbox
        self._refusals, self._suspects = Refusals(self._broker), Suspects(self._broker)
        replay_rate = config.outbox.max_replayed_per_second
        self._sender = Sender(outbox, replay_rate, deliveries, self._refusals, self._suspects)
        self._sender.put(OutgoingMessage(availability, ONLINE.encode(), 1, retain=True), connected=False)
        self._missing: str | None = None
        self._failures = FailureTracker(config.retry, self._broker, client_id)
        self._status = StatusTracker(self._broker, config.ack_timeout, lambda: outbox.line_is_slow)
        self.inbox = SubscriptionQueue(on_fatal)
        self.listeners: list[ConnectionListener] = [self.inbox]
        self._clock = Clock()
        self._wakeup = Wakeup()
        outbox.ready = self._wakeup.set
        self._tried = threading.Event()
        self._closing = threading.Event()
        self._close_by = float("inf")
        self._accepted = False
        self._accepted_at = 0.0
        self._thread = guarded_thread("mqtt", self._run, on_fatal)
        self.heartbeat = Heartbeat("mqtt")
        self.heartbeats = [self.heartbeat, self.inbox.heartbeat]
        self.connects = 0

    def subscribe(self, topic_filter: str, handler: Handler, limit: Limit | None = None) -> None:
        """Have `handler` called for messages on these topics, on every connection. Only before the start."""
        self.inbox.subscribe(topic_filter, handler, limit)

    def start(self, patience: float) -> None:
        """Start to connect, and retry for ever; return after the first attempt, or after `patience` seconds."""
        self.inbox.start()
        self._thread.start()
        self._tried.wait(patience)

    @property
    def connected(self) -> bool:
        """Whether the broker has accepted the present connection."""
        return self._accepted

    @property
    def status(self) -> LinkStatus:
        """State of the connection, since when, and why."""
        return self._status.current

    @property
    def refuses_results(self) -> bool:
        """Whether the broker refuses frame, state or event messages now."""
        return self._refusals.of_results

    def refusal(self, topic: str) -> str | None:
        """Describe why the broker refuses the messages on a topic; None if it accepts them."""
        return self._refusals.refusal(topic)

    @property
    def stats(self) -> BrokerStats:
        """Counters of all connections since the start."""
        return BrokerStats(
            connects=self.connects,
            published=self._sender.acknowledged,
            refused=self._sender.refused,
            refuses="; ".join(filter(None, (self._refusals.problem, self._suspects.problem))) or None,
            missing=self._missing,
            failures=self._failures.counts,
            last_failure=self._failures.last,
        )

    def send(self, message: OutgoingMessage) -> None:
        """Send a message now, or as soon as there is a broker; never blocks.

        A kept message waits in the outbox, in order. Of retained messages only the newest of each topic is sent. Any
        other is sent on the present connection or not at all.
        """
        self._sender.put(message, self._accepted)
        self._wakeup.set()

    def flush(self, timeout: float) -> bool:
        """Wait until nothing is left to send but replayed messages; False if time or connection ended before."""
        deadline = time.monotonic() + timeout
        while not self._sender.is_quiet and self.connected and time.monotonic() < deadline:
            time.sleep(FLUSH_TICK)  # no notification for each message: it would cost time with every one
        return self._sender.is_quiet

    def close(self, timeout: float) -> None:
        """Send live messages and `offline`, and disconnect, within `timeout` seconds. The rest stays in the outbox.

        Replayed messages that are not on disk yet are sent, too: it may be too slow to take them in time.
        """
        self._close_by = time.monotonic() + timeout
        self._closing.set()
        self._wakeup.set()
        self._thread.join(timeout)
        self.inbox.stop(max(0.0, self._close_by - time.monotonic()))

    def _run(self) -> None:
        """Connect, serve the connection, and wait after a failure, until the link closes."""
        while not self._closing.is_set():
            sets = self._clock.sets
            failure = self._try_connection()
            if failure is None:
                return
            delay = self._record(failure)
            self._tried.set()
            self.heartbeat.expect_within("waiting for the next attempt", delay + SERVES_WITHIN)
            self._wait(Deadline(delay), sets, failure)

    def _wait(self, deadline: Deadline, sets: int, failure: LinkError) -> None:
        """Wait before the next attempt; where a certificate was not accepted, only until the clock is set.

        sets: how often it had been before the attempt. A board without a battery has the wrong year until then, in
        which no certificate is valid.
        """
        if failure.state is not BrokerState.BAD_CERTIFICATE:
            self._closing.wait(deadline.left)
            return
        while self._clock.sets == sets and deadline.left and not self._closing.wait(min(CLOCK_CHECK, deadline.left)):
            pass

    def _try_connection(self) -> LinkError | None:
        """Connect and serve the connection; return why it ended, None if the link closed.

        The error is a new one: the frames in the traceback of the one that was raised would keep the connection alive.
        """
        self._accepted_at = 0.0
        self._status.begin_attempt()
        try:
            self._connect_and_serve()
        except LinkError as error:
            return error.detached()
        except SecretError as error:
            return LinkError(BrokerState.REFUSED_LOGIN, str(error))
        return None

    def _record(self, failure: LinkError) -> float:
        """Count and report a failure; return the seconds to wait before the next attempt."""
        lasted = time.monotonic() - self._accepted_at if self._status.was_acknowledged else 0.0
        differs = False
        if self._accepted_at:
            was_short, suspect = time.monotonic() - self._accepted_at < STEADY_AFTER, failure.suspect
            differs = self._suspects.lost(suspect, was_short)
            self._sender.adjust_replay(was_short and suspect is not None and suspect.sent.kept and not suspect.alone)
        failure, delay = self._failures.add(failure, lasted if self._accepted_at else None, differs)
        self._status.failed(failure, delay)
        return delay

    def _connect_and_serve(self) -> None:
        """Serve one connection until the link closes. Raises LinkError when it breaks before, SecretError."""
        connection = self._connect()
        said_offline = False
        try:
            self._begin(connection)
            self._serve(connection)
            said_offline = self._say_offline(connection)
        except LinkError as error:
            if error.state is BrokerState.UNACKNOWLEDGED and connection.acknowledged:
                error.suspect = connection.suspect_besides_results
            raise
        finally:
            self._end(connection)
            connection.close(politely=said_offline)

    def _connect(self) -> Connection:
        """Return a connection that the broker has accepted: with less, where it refuses what the last will asks for."""
        attempts = [BrokerLimits(self._config.qos)]
        while True:
            self.heartbeat.expect_within("connecting to the broker", CONNECTS_WITHIN)
            connection = Connection(
                self._config, self._client_id, self._offline, self._wakeup, attempts.pop(0), self._suspects
            )
            try:
                connection.open()
            except LimitsError as error:
                connection.close(politely=False)
                attempts = attempts or list(error.narrower)
                if not attempts:
                    raise
            except BaseException:
                connection.close(politely=False)
                raise
            else:
                return connection

    def _begin(self, connection: Connection) -> None:
        """Use a connection that the broker has accepted."""
        self._accepted_at = time.monotonic()
        self.connects += 1
        self._sender.connected()
        self._accepted = True
        self._tried.set()
        for listener in self.listeners:
            listener.connected(connection.subscriber, connection.limits)
        self._report_missing(connection.limits.missing(self._config.qos))

    def _report_missing(self, missing: str | None) -> None:
        """Keep what the broker does not offer; log each change."""
        if missing != self._missing:
            self._missing = missing
            text = f"offers {missing}" if missing else "offers retained messages and QoS 1 again"
            log.warning("broker %s %s", self._broker, text, extra={"broker": self._broker})

    def _end(self, connection: Connection) -> None:
        """Stop using a connection: what was not acknowledged waits for the next one."""
        self._accepted = False
        self._status.disconnected()
        for listener in self.listeners:
            listener.disconnected(connection.subscriber)
        self._sender.disconnected()

    def _serve(self, connection: Connection) -> None:
        """Move messages until the link closes and nothing is left that would be lost, or its time is over."""
        check_at = 0.0
        while not (self._closing.is_set() and (self._is_done or time.monotonic() > self._close_by)):
            pause = self._sender.send(connection, replay=not (self._closing.is_set() and self._is_saved))
            now = time.monotonic()
            if now >= check_at:
                self._check(connection)
                check_at = now + min(CHECK_EVERY, self._config.ack_timeout / CHECKS)
            self._exchange(connection, min(pause, check_at - now))

    @property
    def _is_done(self) -> bool:
        """Whether all live messages are sent, and all others on disk or sent."""
        return self._sender.is_quiet and self._is_saved

    @property
    def _is_saved(self) -> bool:
        return self._outbox.in_memory_only == 0

    def _say_offline(self, connection: Connection) -> bool:
        """Publish `offline`; return whether the broker acknowledged it.

        Where it did not, the connection must be dropped, so that the broker publishes the last will.
        """
        if time.monotonic() > self._close_by:
            return False
        connection.publish(Delivery(self._offline))
        while connection.in_flight and time.monotonic() < self._close_by:
            self._status.check(connection)
            self._exchange(connection, CHECK_EVERY)
        return connection.in_flight == 0

    def _exchange(self, connection: Connection, timeout: float) -> None:
        """Wait for the network or a wake-up, and process what came. Raises LinkError where the connection broke."""
        left = max(0.0, self._close_by - time.monotonic())
        for delivery, answer in connection.process(connection.wait(min(timeout, left))):
            self._sender.settle(delivery, answer)
        if self._status.current.state is not BrokerState.CONNECTED:
            self._status.check(connection)
        if self.inbox.is_flooding:
            self.inbox.poll(connection.subscriber)

    def _check(self, connection: Connection) -> None:
        """Do what is due several times a second. Raises LinkError where an acknowledgement is overdue for too long."""
        self.heartbeat.expect_within("exchanging messages with the broker", SERVES_WITHIN)
        for listener in self.listeners:
            listener.poll(connection.subscriber)
        self._sender.poll(connection)
        self._status.check(connection)
