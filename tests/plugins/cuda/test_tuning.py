"""Tuning: every candidate is measured, the fastest is stored, and the results do not depend on the choice."""

import json
import logging
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from edgemeta.kernels.cuda.compile.cache import Cubins
from edgemeta.kernels.cuda.lowering import candidate_counts, lower
from edgemeta.model import reference
from edgemeta.plugins.cuda import tuning
from edgemeta.plugins.cuda.backend import CudaBackend
from edgemeta.plugins.cuda.device import DeviceContext
from edgemeta.plugins.cuda.tuning import tuned
from edgemeta.plugins.measure import random_image
from tests.conformance.cases import Case
from tests.plugins.cuda.emulated import Driver

LAUNCH_FAILED = 719


@pytest.fixture(autouse=True)
def few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """An emulated launch takes a thousand times a real one's time, so each candidate is timed once."""
    monkeypatch.setattr(tuning, "WARM_UP_RUNS", 0)
    monkeypatch.setattr(tuning, "TIMED_RUNS", 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "choices"


def with_a_choice(case: Case, device: DeviceContext) -> dict[str, int]:
    counts = candidate_counts(case.model, device.architecture)
    return {layer: count for layer, count in counts.items() if count > 1}


def stored(folder: Path) -> Path:
    (file,) = (folder / "tiles").iterdir()
    return file


@pytest.mark.gate("3 s: every tile is compiled and run, emulated")
def test_every_candidate_is_measured_once_and_the_choice_stored(
    device: DeviceContext, driver: Driver, cubins: Cubins, small: Case, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, tuning.__name__):
        plan = tuned(small.model, device, cubins, folder)
    assert f"tuning: measuring the fastest kernels on {device.name}, once per model" in caplog.text
    counts = with_a_choice(small, device)
    assert counts
    choices = {layer: entry["candidate"] for layer, entry in json.loads(stored(folder).read_text()).items()}
    assert choices.keys() == counts.keys()
    assert all(0 <= choices[layer] < counts[layer] for layer in counts)
    expected = lower(small.model, device.architecture, choices)
    assert [launch.source for launch in plan.launches] == [launch.source for launch in expected.launches]

    events = driver.calls("cuEventRecord")
    again = tuned(small.model, device, cubins, folder)
    assert driver.calls("cuEventRecord") == events, "what is remembered is not measured"
    assert [launch.source for launch in again.launches] == [launch.source for launch in plan.launches]


@pytest.mark.gate("9 s: every kernel is measured twice, emulated")
def test_a_damaged_tuning_file_is_measured_again(
    device: DeviceContext, driver: Driver, cubins: Cubins, small: Case, folder: Path
) -> None:
    tuned(small.model, device, cubins, folder)
    whole = stored(folder).read_text()
    for damage in ("", "{", "[]", "{}", '{"conv0": 3}', '{"conv0": {"candidate": 99, "variant": ""}}'):
        stored(folder).write_text(damage)
        events = driver.calls("cuEventRecord")
        tuned(small.model, device, cubins, folder)
        assert driver.calls("cuEventRecord") > events, damage
        assert json.loads(stored(folder).read_text()).keys() == json.loads(whole).keys(), damage


@pytest.mark.gate("3 s: every kernel is measured once more, emulated")
def test_choices_for_other_kernels_are_measured_again(
    device: DeviceContext, driver: Driver, cubins: Cubins, small: Case, folder: Path
) -> None:
    tuned(small.model, device, cubins, folder)
    content = json.loads(stored(folder).read_text())
    next(iter(content.values()))["variant"] = "of another release"
    stored(folder).write_text(json.dumps(content))
    events = driver.calls("cuEventRecord")
    tuned(small.model, device, cubins, folder)
    assert driver.calls("cuEventRecord") > events


def test_candidates_that_the_device_refuses_are_skipped(
    device: DeviceContext, driver: Driver, cubins: Cubins, small: Case, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    driver.fail("cuLaunchKernel", LAUNCH_FAILED)
    with caplog.at_level(logging.WARNING, tuning.__name__):
        tuned(small.model, device, cubins, folder)
    driver.forget()
    assert f"candidates skipped, {device.name} cannot run them: cuLaunchKernel failed" in caplog.text
    choices = json.loads(stored(folder).read_text())
    assert choices.keys() == with_a_choice(small, device).keys()
    assert all(entry["candidate"] > 0 for entry in choices.values())


def test_without_a_measurement_the_rule_applies_and_nothing_is_stored(
    device: DeviceContext, driver: Driver, cubins: Cubins, small: Case, folder: Path
) -> None:
    driver.fail("cuLaunchKernel", LAUNCH_FAILED, times=1000)
    plan = tuned(small.model, device, cubins, folder)
    driver.forget()
    by_rule = lower(small.model, device.architecture)
    assert [launch.source for launch in plan.launches] == [launch.source for launch in by_rule.launches]
    assert not folder.exists()


def test_an_unwritable_tuning_folder_is_logged_and_does_not_stop_the_session(
    device: DeviceContext, cubins: Cubins, small: Case, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a folder")
    with caplog.at_level(logging.WARNING, tuning.__name__):
        tuned(small.model, device, cubins, tmp_path / "file")
    assert "tuning: the result is not stored" in caplog.text


def test_the_bits_do_not_depend_on_the_choice(backend: CudaBackend, small: Case, cache: Path) -> None:
    image = random_image(small.model)
    with closing(
        backend.compile(small.model, {"tiles": "measured", "launch": "graph", "cache": str(cache)})
    ) as session:
        np.testing.assert_array_equal(session.run(image)[0], reference.run(small.model, image)[0], strict=True)
