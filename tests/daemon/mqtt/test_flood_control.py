"""How many messages are taken in: a burst of a second's worth, then the rate, and none while there is a flood."""

import logging

import pytest

from edgemeta.daemon.mqtt.flood_control import FLOOD, FLOOD_WITHOUT_RATE, PAUSE, FloodControl, Verdict
from edgemeta.daemon.runtime.clock import NS

BEGIN = 1000 * NS


def judged(intake: FloodControl, count: int, begin_ns: int = BEGIN, step_ns: int = 0) -> list[Verdict]:
    return [intake.judge(begin_ns + number * step_ns) for number in range(count)]


def test_a_seconds_worth_may_come_at_once_and_then_the_rate_counts() -> None:
    intake = FloodControl("t", 5)
    verdicts = judged(intake, 30)
    handled = verdicts.count(Verdict.HANDLE)
    assert 5 <= handled <= 6
    assert verdicts == [Verdict.HANDLE] * handled + [Verdict.REFUSE] + [Verdict.DROP] * (29 - handled)
    assert intake.reason == "at most 5 per second are carried out"
    assert intake.dropped["rate"] == 30 - handled
    assert judged(intake, 30, BEGIN + NS, NS // 30).count(Verdict.HANDLE) == 5 + 4, "what was saved up, and the rate"


def test_a_minute_of_too_many_is_answered_once_a_second() -> None:
    intake = FloodControl("t", 5)
    verdicts = judged(intake, 60 * 40, step_ns=NS // 40)
    assert not intake.is_flooded
    assert 59 * 5 <= verdicts.count(Verdict.HANDLE) <= 61 * 5
    assert 58 <= verdicts.count(Verdict.REFUSE) <= 61


def test_a_flood_is_not_heard_for_a_while_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    intake = FloodControl("t", 5)
    assert intake.is_wanted(BEGIN)
    with caplog.at_level(logging.WARNING):
        verdicts = judged(intake, 10 * FLOOD)
        before = FLOOD - verdicts.count(Verdict.HANDLE)
        assert verdicts[FLOOD] is Verdict.REFUSE
        assert set(verdicts[FLOOD + 1 :]) == {Verdict.DROP}
        assert intake.reason == f"more than {FLOOD} within a second, so that none is heard for {PAUSE} s"
        assert intake.is_flooded
        assert not intake.is_wanted(BEGIN + PAUSE * NS - 1)
        again = BEGIN + PAUSE * NS
        assert intake.is_wanted(again)
        verdicts = judged(intake, 10 * FLOOD, again)
        assert verdicts.count(Verdict.HANDLE) == 1, "no burst of what is the flood again"
        assert not intake.is_wanted(again)
        calm = again + 2 * PAUSE * NS
        assert intake.is_flooded
        assert intake.is_wanted(calm)
        assert not intake.is_flooded
    assert [record.message for record in caplog.records] == [
        f"flood of messages on t: more than {FLOOD} within a second, so that none is heard for {PAUSE} s",
        f"no flood of messages on t any more; {intake.dropped.total() - before} were dropped",
    ]
    assert judged(intake, 4, calm) == [Verdict.HANDLE] * 4


def test_a_greater_rate_makes_a_greater_flood() -> None:
    intake = FloodControl("t", 1000)
    judged(intake, 10_000)
    assert not intake.is_flooded
    judged(intake, 1)
    assert intake.is_flooded


def test_without_a_rate_all_is_handled_that_is_no_flood() -> None:
    intake = FloodControl("t")
    assert judged(intake, FLOOD_WITHOUT_RATE) == [Verdict.HANDLE] * FLOOD_WITHOUT_RATE
    assert judged(intake, 2) == [Verdict.REFUSE, Verdict.DROP]
    assert not intake.is_wanted(BEGIN)
