"""The estimate of a training's end, and what an interruption keeps."""

import pytest

from edgemeta.cli.training_bars import TrainingBars, remaining_seconds
from edgemeta.toolchain.progress import TrainingEvent


def event(epoch: int, step: int, seconds: float, accuracy: float | None = None) -> TrainingEvent:
    return TrainingEvent("training", epoch, 10, step, 5, 1.25, accuracy, None, seconds)


def test_the_estimate_counts_from_where_this_process_began() -> None:
    """A continued run: 40 of 50 steps were done before, by another process."""
    first = event(9, 1, 2.0)
    assert remaining_seconds(first, first) is None
    assert remaining_seconds(first, event(9, 3, 6.0)) == pytest.approx(7 * 2.0)
    assert remaining_seconds(first, event(10, 5, 20.0)) == 0


def test_complete_epochs_are_kept() -> None:
    bars = TrainingBars()
    assert bars.epochs_kept() is None
    bars.show(event(1, 2, 1.0))
    assert bars.epochs_kept() == (0, 10)
    bars.show(event(1, 5, 2.0, 80.0))
    assert bars.epochs_kept() == (1, 10)
    bars.show(event(2, 1, 3.0))
    assert bars.epochs_kept() == (1, 10)
    bars.close()


def test_without_a_terminal_a_short_stage_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    bars = TrainingBars()
    bars.show(event(10, 1, 1.0, 80.0))
    bars.show(event(10, 5, 5.0))
    bars.close()
    assert capsys.readouterr().err == ""


def test_the_text_keeps_the_newest_accuracy(monkeypatch: pytest.MonkeyPatch) -> None:
    bars, texts = TrainingBars(), []
    bars.show(event(1, 1, 1.0))
    monkeypatch.setattr(bars, "_move", lambda done, total, text: texts.append((done, total, text)))
    bars.show(event(1, 5, 5.0, 80.0))
    bars.show(event(2, 1, 6.0))
    assert texts == [
        (5, 50, "epoch 1/10, loss 1.250, accuracy 80.0 %, 45 s left"),
        (6, 50, "epoch 2/10, loss 1.250, accuracy 80.0 %, 44 s left"),
    ]
    bars.show(event(2, 2, 600.0))
    assert texts[-1][2].endswith("min left")
    bars.close()
