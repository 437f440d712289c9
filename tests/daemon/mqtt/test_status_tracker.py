"""The status by what is acknowledged, and what is logged of it."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from edgemeta.daemon.messages.broker_state import BrokerState
from edgemeta.daemon.mqtt.state import LinkError
from edgemeta.daemon.mqtt.status_tracker import LATE_AFTER, StatusTracker

TIMEOUT = 10.0


@dataclass
class Acks:
    """What a connection would report."""

    acknowledged: bool = False
    overdue: float = 0.0
    expected_within: float = 0.0


def tracker(line_is_slow: Callable[[], bool] = lambda: False) -> StatusTracker:
    return StatusTracker("host:1883", TIMEOUT, line_is_slow)


def test_it_is_connected_once_something_is_acknowledged(caplog: pytest.LogCaptureFixture) -> None:
    status, acks = tracker(), Acks()
    with caplog.at_level(logging.INFO):
        status.check(acks)
        assert (status.current.state, status.was_acknowledged) == (BrokerState.CONNECTING, False)
        acks.acknowledged = True
        for _ in range(3):
            status.check(acks)
    assert (status.current.state, status.current.reason, status.was_acknowledged) == (BrokerState.CONNECTED, None, True)
    assert [record.message for record in caplog.records] == ["connected to broker host:1883"]


def test_an_overdue_acknowledgement_changes_the_state_and_then_ends_the_connection() -> None:
    status, acks = tracker(), Acks(acknowledged=True)
    status.check(acks)
    acks.overdue = LATE_AFTER + 0.1
    status.check(acks)
    assert status.current.state is BrokerState.UNACKNOWLEDGED
    assert status.current.reason == f"broker host:1883 has not acknowledged a message for {LATE_AFTER:g} s"
    acks.overdue = TIMEOUT + 0.1
    with pytest.raises(LinkError, match="has not acknowledged a message for 10 s") as raised:
        status.check(acks)
    assert raised.value.state is BrokerState.UNACKNOWLEDGED


def test_a_late_acknowledgement_makes_it_connected_again(caplog: pytest.LogCaptureFixture) -> None:
    status, acks = tracker(), Acks(acknowledged=True)
    with caplog.at_level(logging.INFO):
        for overdue in (0.0, LATE_AFTER + 1, 0.0):
            acks.overdue = overdue
            status.check(acks)
    assert status.current.state is BrokerState.CONNECTED
    assert len(caplog.records) == 1, "the same connection"


def test_a_failure_is_a_warning_once_and_keeps_its_time(caplog: pytest.LogCaptureFixture) -> None:
    status = tracker()
    failure = LinkError(BrokerState.UNREACHABLE, "nobody there")
    with caplog.at_level(logging.DEBUG):
        status.failed(failure, 1.0)
        since = status.current.since_ns
        time.sleep(0.001)
        status.begin_attempt()
        status.failed(failure, 2.0)
        status.failed(LinkError(BrokerState.REFUSED, "full"), 3.0)
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "nobody there; next try in 1.0 s"),
        ("DEBUG", "nobody there; next try in 2.0 s"),
        ("WARNING", "full; next try in 3.0 s"),
    ]
    assert status.current.since_ns > since
    status.failed(LinkError(BrokerState.REFUSED, "full"), 3.0)
    since = status.current.since_ns
    time.sleep(0.001)
    status.failed(LinkError(BrokerState.REFUSED, "full"), 3.0)
    assert status.current.since_ns == since


def test_a_connection_that_ends_is_no_longer_connected_but_a_failure_stays() -> None:
    status = tracker()
    status.check(Acks(acknowledged=True))
    status.disconnected()
    assert status.current.state is BrokerState.CONNECTING
    status.failed(LinkError(BrokerState.REFUSED, "full"), 3.0)
    status.disconnected()
    assert status.current.state is BrokerState.REFUSED


def test_while_attempts_fail_alike_the_reason_stays() -> None:
    """Otherwise each attempt would be logged anew."""
    status = tracker()
    failure = LinkError(BrokerState.UNACKNOWLEDGED, "broker host:1883 has not acknowledged a message for 10 s")
    status.failed(failure, 1.0)
    status.begin_attempt()
    status.check(Acks(overdue=LATE_AFTER + 1))
    assert status.current.reason == str(failure)


def test_a_slow_line_is_a_state_of_its_own_and_said_once_per_change(caplog: pytest.LogCaptureFixture) -> None:
    slow = [False]
    status, acks = tracker(lambda: slow[0]), Acks(acknowledged=True)
    with caplog.at_level(logging.INFO):
        for now in (False, True, True, False, False):
            slow[0] = now
            status.check(acks)
            assert status.current.state is (BrokerState.SLOW if now else BrokerState.CONNECTED)
    assert [record.message for record in caplog.records] == [
        "connected to broker host:1883",
        "broker host:1883 takes messages more slowly than they are made: frames are late",
        "broker host:1883 takes messages in time again",
    ]
    slow[0] = True
    status.check(acks)
    status.disconnected()
    assert status.current.state is BrokerState.CONNECTING


def test_acknowledgements_that_are_as_late_as_usual_are_not_overdue() -> None:
    status, acks = tracker(), Acks(acknowledged=True, overdue=LATE_AFTER + 1, expected_within=LATE_AFTER + 2)
    status.check(acks)
    assert status.current.state is BrokerState.CONNECTED
    acks.overdue = LATE_AFTER + 2.1
    status.check(acks)
    assert status.current.state is BrokerState.UNACKNOWLEDGED
