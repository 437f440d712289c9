"""`verify` counts images with any wrong logit; `bench` returns consistent figures."""

import time
from contextlib import closing

import numpy as np

from edgemeta.model import reference
from edgemeta.plugins.api import Batch, Outputs
from edgemeta.plugins.measure import MIN_RUNS, bench, random_image, verify
from edgemeta.plugins.registry import choose
from tests.conformance.cases import CASES, Case


class OffByOne:
    """A session with one wrong logit in the second image of every batch."""

    def __init__(self, case: Case) -> None:
        self._model = case.model

    def run(self, batch: Batch) -> Outputs:
        outputs = reference.run(self._model, batch)
        outputs[0][1, 0, 0, -1] += 1
        return outputs

    def close(self) -> None:
        pass


def test_verify_finds_a_single_wrong_logit(resnet8: Case) -> None:
    image = random_image(resnet8.model)
    batches = [np.concatenate([image] * 2), np.concatenate([image] * 3)]
    reported: list[tuple[int, int]] = []
    session = OffByOne(resnet8)
    assert verify(session, resnet8.model, batches, 5, lambda *done: reported.append(done)) == (5, 2)
    assert reported == [(2, 5), (5, 5)]


class Turned(OffByOne):
    """A session whose outputs have another shape."""

    def run(self, batch: Batch) -> Outputs:
        return tuple(each.transpose(0, 3, 1, 2) for each in reference.run(self._model, batch))


def test_outputs_of_the_right_shape_can_be_compared_further(resnet8: Case) -> None:
    batch = np.concatenate([random_image(resnet8.model)] * 2)
    reported: list[tuple[Outputs, Outputs]] = []

    def compare(found: Outputs, expected: Outputs) -> None:
        reported.append((found, expected))

    assert verify(OffByOne(resnet8), resnet8.model, [batch], 2, lambda *_: None, compare) == (2, 1)
    ((found, expected),) = reported
    assert np.array_equal(expected[0], reference.run(resnet8.model, batch)[0])
    assert (found[0] != expected[0]).sum() == 1
    reported.clear()
    assert verify(Turned(resnet8), resnet8.model, [batch], 2, lambda *_: None, compare) == (2, 2)
    assert reported == []


def test_verify_passes_the_cpu(resnet8: Case) -> None:
    with closing(choose("cpu").compile(resnet8.model, {})) as session:
        batches = [batch for _, batch in resnet8.batches()]
        images = sum(len(batch) for batch in batches)
        assert verify(session, resnet8.model, batches, images, lambda *_: None) == (images, 0)


def test_bench_gives_consistent_figures(resnet8: Case) -> None:
    reported: list[tuple[int, int]] = []
    with closing(choose("cpu").compile(resnet8.model, {})) as session:
        timing = bench(session, resnet8.model, 20, 0.1, lambda *done: reported.append(done))
    assert 0 < timing.min_us <= timing.median_us <= timing.p99_us
    assert "conv2+add3" in timing.stages
    assert sum(timing.stages.values()) > 0
    assert reported[-1] == (20, 20)


class Slow(OffByOne):
    """A session that takes 10 ms for an image."""

    def run(self, batch: Batch) -> Outputs:
        time.sleep(0.01)
        return ()


def test_a_slow_session_is_timed_as_often_as_there_is_time(resnet8: Case) -> None:
    reported: list[tuple[int, int]] = []
    session = Slow(resnet8)
    begin = time.monotonic()
    timing = bench(session, resnet8.model, 2000, 0.0, lambda *done: reported.append(done), seconds=0.2)
    assert time.monotonic() - begin < 10
    assert MIN_RUNS <= timing.runs <= 20
    assert timing.min_us >= 10_000
    assert reported[-1] == (timing.runs, timing.runs)
    assert bench(session, resnet8.model, 2000, 0.0, lambda *_: None, seconds=0.0).runs == MIN_RUNS
    assert bench(session, resnet8.model, 30, 0.0, lambda *_: None).runs == 30


def test_a_session_without_a_profile_is_timed() -> None:
    model = CASES[0].model
    with closing(choose("reference").compile(model, {})) as session:
        timing = bench(session, model, 1, 0.0, lambda *_: None)
    assert timing.median_us == timing.min_us == timing.p99_us > 0
    assert timing.stages == {}


class Watched(Slow):
    """A session that notes when its steps are profiled."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.begun: list[float] = []

    def profile(self, image: Batch) -> dict[str, float]:
        self.begun.append(time.monotonic())
        return {"step": 1.0}


def test_steps_are_profiled_at_the_pace_of_the_runs(resnet8: Case) -> None:
    session = Watched(resnet8)
    assert bench(session, resnet8.model, MIN_RUNS, 5.0, lambda done, total: None).stages == {"step": 1.0}
    assert len(session.begun) > 1
    assert min(np.diff(session.begun)) >= 0.005
