"""Who keeps a promise is well; who does not, hangs."""

import math

from edgemeta.daemon.runtime.heartbeat import Heartbeat


def test_a_promise_kept_or_renewed_is_no_trouble() -> None:
    heartbeat = Heartbeat("camera front")
    assert heartbeat.overdue is None
    heartbeat.expect_within("reading a frame", -3)
    assert heartbeat.overdue == "camera front hangs: reading a frame, 3 s late"
    heartbeat.expect_within("reading a frame", 60)
    assert heartbeat.overdue is None
    heartbeat.expect_within("reading a frame", -1)
    heartbeat.clear()
    assert heartbeat.overdue is None


def test_what_is_owed_stands_until_it_is_paid() -> None:
    heartbeat = Heartbeat("worker")
    heartbeat.expect_if_idle("a frame", -1)
    heartbeat.expect_if_idle("a frame", math.inf)
    assert heartbeat.overdue is not None
    heartbeat.clear()
    heartbeat.expect_if_idle("a frame", 60)
    assert heartbeat.overdue is None
