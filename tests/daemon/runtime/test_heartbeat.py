"""Heartbeat deadlines: met, renewed, missed."""

import math

from edgemeta.daemon.runtime.heartbeat import Heartbeat


def test_a_deadline_met_or_renewed_is_not_overdue() -> None:
    heartbeat = Heartbeat("camera front")
    assert heartbeat.overdue is None
    heartbeat.expect_within("reading a frame", -3)
    assert heartbeat.overdue == "camera front hangs: reading a frame, 3 s late"
    heartbeat.expect_within("reading a frame", 60)
    assert heartbeat.overdue is None
    heartbeat.expect_within("reading a frame", -1)
    heartbeat.clear()
    assert heartbeat.overdue is None


def test_expect_if_idle_keeps_an_earlier_deadline() -> None:
    heartbeat = Heartbeat("worker")
    heartbeat.expect_if_idle("a frame", -1)
    heartbeat.expect_if_idle("a frame", math.inf)
    assert heartbeat.overdue is not None
    heartbeat.clear()
    heartbeat.expect_if_idle("a frame", 60)
    assert heartbeat.overdue is None
