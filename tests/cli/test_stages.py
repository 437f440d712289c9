"""The stages of a long command, and the estimate of the time that is left."""

from dataclasses import dataclass

import pytest

from edgemeta.cli.progress import in_words, progress_lines
from edgemeta.cli.stages import RemainingTime, Stages


@dataclass(frozen=True)
class Part:
    """A planned stage."""

    name: str
    work: float


PLAN = (Part("read", 1), Part("run", 10), Part("try", 2), Part("run", 10), Part("try", 2))


def test_the_rest_is_estimated_from_what_ended() -> None:
    now = [100.0]
    remaining = RemainingTime(PLAN, lambda: now[0])
    found = []
    for took in (2, 40, 5, 30, 5):
        remaining.begin()
        found.append((remaining.number, remaining.seconds))
        now[0] += took
    rate = 42 / 11
    assert found == [
        (1, None),
        (2, pytest.approx(2 * 24)),  # 2 s for each unit
        (3, pytest.approx(2 * rate + 40 + 2 * rate)),  # a run takes 40 s, a try is estimated
        (4, 45),
        (5, 5),
    ]


def test_more_stages_than_planned_end_the_estimate() -> None:
    remaining = RemainingTime(PLAN[:1], lambda: 0.0)
    for _ in range(3):
        remaining.begin()
    assert (remaining.number, remaining.seconds) == (3, 0)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "1 s"), (0.2, "1 s"), (59, "59 s"), (59.5, "60 s"), (60, "1 min"), (61, "2 min"), (3601, "1 h 1 min")],
)
def test_times_in_words(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


def test_without_a_terminal_each_stage_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    stages = Stages()
    stages.plan(PLAN[:2])
    stages.begin("read")
    stages.progress(1, 2)
    stages.begin("run", "well")
    stages.close()
    first, second = capsys.readouterr().err.splitlines()
    assert first == "edgemeta: 1/2 read"
    assert second == "edgemeta: 2/2 run (well), about 1 s left"


def test_a_line_each_half_minute(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    update = progress_lines("run", lambda: now[0])
    for number in range(1, 9):
        now[0] += 10
        update(number, 1000)
    update(1000, 1000)
    update(1000, 1000, "loss 1.0")
    first, second, end = capsys.readouterr().err.splitlines()
    assert (first, second) == ("edgemeta: run: 3 of 1,000", "edgemeta: run: 6 of 1,000")
    assert end == "edgemeta: run: loss 1.0"
