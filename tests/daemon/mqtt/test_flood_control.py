"""How many messages are handled: a burst of one second's worth, then the rate, and none during a flood."""

import logging

import pytest

from edgemeta.daemon.mqtt.flood_control import FLOOD_ABOVE, FLOOD_ABOVE_WITHOUT_RATE, PAUSE, FloodControl, Verdict
from edgemeta.daemon.runtime.clock import NS

BEGIN = 1000 * NS


def judged(control: FloodControl, count: int, begin_ns: int = BEGIN, step_ns: int = 0) -> list[Verdict]:
    return [control.judge(begin_ns + number * step_ns) for number in range(count)]


def test_one_seconds_worth_may_come_at_once_and_then_the_rate_applies() -> None:
    control = FloodControl("t", 5)
    verdicts = judged(control, 30)
    handled = verdicts.count(Verdict.HANDLE)
    assert 5 <= handled <= 6
    assert verdicts == [Verdict.HANDLE] * handled + [Verdict.REFUSE] + [Verdict.DROP] * (29 - handled)
    assert control.reason == "at most 5 per second"
    assert control.dropped["rate"] == 30 - handled
    assert judged(control, 30, BEGIN + NS, NS // 30).count(Verdict.HANDLE) == 5 + 4, "the burst, and the rate"


def test_above_the_rate_one_message_a_second_is_answered() -> None:
    control = FloodControl("t", 5)
    verdicts = judged(control, 60 * 40, step_ns=NS // 40)
    assert not control.is_flooded
    assert 59 * 5 <= verdicts.count(Verdict.HANDLE) <= 61 * 5
    assert 58 <= verdicts.count(Verdict.REFUSE) <= 61


def test_a_flooded_topic_is_unsubscribed_for_a_while_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    control = FloodControl("t", 5)
    assert control.is_wanted(BEGIN)
    with caplog.at_level(logging.WARNING):
        verdicts = judged(control, 10 * FLOOD_ABOVE)
        before = FLOOD_ABOVE - verdicts.count(Verdict.HANDLE)
        assert verdicts[FLOOD_ABOVE] is Verdict.REFUSE
        assert set(verdicts[FLOOD_ABOVE + 1 :]) == {Verdict.DROP}
        assert control.reason == f"more than {FLOOD_ABOVE} within a second; unsubscribed for {PAUSE} s"
        assert control.is_flooded
        assert not control.is_wanted(BEGIN + PAUSE * NS - 1)
        again = BEGIN + PAUSE * NS
        assert control.is_wanted(again)
        verdicts = judged(control, 10 * FLOOD_ABOVE, again)
        assert verdicts.count(Verdict.HANDLE) == 1, "no burst of what is the flood again"
        assert not control.is_wanted(again)
        calm = again + 2 * PAUSE * NS
        assert control.is_flooded
        assert control.is_wanted(calm)
        assert not control.is_flooded
    assert [record.message for record in caplog.records] == [
        f"flood of messages on t: more than {FLOOD_ABOVE} within a second; unsubscribed for {PAUSE} s",
        f"flood of messages on t has ended, {control.dropped.total() - before} dropped",
    ]
    assert judged(control, 4, calm) == [Verdict.HANDLE] * 4


def test_with_a_greater_rate_a_flood_is_greater() -> None:
    control = FloodControl("t", 1000)
    judged(control, 10_000)
    assert not control.is_flooded
    judged(control, 1)
    assert control.is_flooded


def test_without_a_rate_everything_below_a_flood_is_handled() -> None:
    control = FloodControl("t")
    assert judged(control, FLOOD_ABOVE_WITHOUT_RATE) == [Verdict.HANDLE] * FLOOD_ABOVE_WITHOUT_RATE
    assert judged(control, 2) == [Verdict.REFUSE, Verdict.DROP]
    assert not control.is_wanted(BEGIN)
