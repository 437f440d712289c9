"""The short form of reliability/swaps.py: every way in which a model can be bad, once, under frames."""

import pytest

from reliability import swaps


@pytest.mark.gate("10 s: an acceptance program in its short form")
@pytest.mark.usefixtures("mosquitto")
def test_one_swap_of_each_kind_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(swaps, "LOOKS", 30)
    ways = len(swaps.BAD)
    result = swaps.measure(2 * ways, warm_up=2, with_rests=False)
    assert result["ended"] == {"swapped": ways} | dict.fromkeys(swaps.BAD, 1)
    assert result["grown"]["threads"] == result["grown"]["files"] == result["grown"]["children"] == 0
    assert result["frames"]["failed"] == 0
    assert set(result["median_us"]) == {"verify", "compile", "warm_up", "self_test", "shadow", "trial"}


def test_a_lost_and_a_late_frame_would_be_detected() -> None:
    frames = swaps.Frames()
    for number in (1, 2, 3, 5, 6, 7):
        captured = f"2026-01-01T00:00:{number:02}+00:00"
        moment = swaps.datetime.fromisoformat(captured).timestamp()
        late = 0.05 if number == 6 else 0.002
        message = {"sequence": number, "dropped": {"failed": int(number > 4)}, "captured": captured}
        frames.take(message, moment + late)
    found = swaps.summary([frames])
    assert (found["lost"], found["failed"], found["late"]) == (1, 1, 1)
