"""Model swaps under frames: the model in use afterwards, the reports, no lost frame, no resource left."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from edgemeta.daemon.messages.swaps import SwapMessage, SwapResult
from edgemeta.daemon.runtime.deadline import Deadline
from edgemeta.daemon.service.change_result import ChangeResult
from edgemeta.daemon.service.reload import reload
from edgemeta.model.graph import Model
from rig.waiting import wait_until
from tests.daemon.service.conftest import PlantedBackend, Running

RunService = Callable[..., Running]
ModelOf = Callable[..., str]


def reported(running: Running) -> SwapMessage:
    """The swap message that waits for the broker."""
    message = running.service.parts.link._sender._direct._retained["edgemeta/test/swap"]
    return SwapMessage.model_validate_json(message.payload)


def change(running: Running, **keys: Any) -> ChangeResult:
    return reload(running.change(**keys), running.service)


def test_a_model_is_swapped_and_no_frame_is_lost(
    run_service: RunService, model_of: ModelOf, planted: PlantedBackend
) -> None:
    running = run_service()
    outcome = change(running, model=model_of("new"))
    assert outcome == ChangeResult(True, "config reloaded: applied model")
    assert running.serving == {"front": "new"}
    assert planted.open == 1
    running.assert_nothing_lost()
    message = reported(running)
    assert message.result is SwapResult.SWAPPED
    assert message.trigger == "signal"
    assert message.reason is None
    (exchanged,) = message.models
    assert (exchanged.before.name, exchanged.after.name, exchanged.cameras) == ("old", "new", ["front"])
    assert exchanged.shadow is not None
    assert (exchanged.shadow.frames, exchanged.shadow.same_label) == (5, 1.0)
    assert exchanged.served >= 5
    assert all(value is not None and value > 0 for value in message.took_us.model_dump().values())
    assert running.service.parts.swaps.results == {"swapped": 1, "rolled_back": 0, "refused": 0, "cancelled": 0}


def test_without_a_shadow_run_it_is_replaced_at_once(run_service: RunService, model_of: ModelOf) -> None:
    running = run_service(swap={"shadow_frames": 0, "trial_frames": 1}, watch_files=False)
    assert change(running, model=model_of("new")).ok
    assert reported(running).models[0].shadow is None


def test_the_same_line_but_another_file(run_service: RunService, model_of: ModelOf) -> None:
    running = run_service()
    before = running.service.in_use.plan.loaded_models["front"].identity
    model_of("old", labels=("blue", "green", "red"))
    assert change(running).message == "config reloaded: applied model"
    assert running.service.in_use.plan.loaded_models["front"].identity.sha256 != before.sha256


REFUSED: dict[str, tuple[Callable[[ModelOf], str], dict[str, Any], str]] = {
    "cannot be compiled": (lambda model_of: model_of("uncompilable"), {}, "planted: cannot be compiled"),
    "fails its self-test": (
        lambda model_of: model_of("new", self_test=False),
        {},
        "gives different outputs for self-test input",
    ),
    "fails while it warms up": (lambda model_of: model_of("fails--9"), {}, "planted: fails--9"),
    "fails in the shadow run": (lambda model_of: model_of("fails-3"), {}, "shadow run: planted: fails-3"),
    "names other labels": (
        lambda model_of: model_of("new", labels=("blue", "red", "green")),
        {"min_agreement": 0.9},
        "shadow run: 0% of 5 frames got the same label",
    ),
    "is too slow": (lambda model_of: model_of("slow-50"), {"max_slowdown": 3.0}, "expected at most 3 times as long"),
    "is not there": (lambda model_of: "/nowhere/new", {}, "/nowhere/new: no such model file"),
}


@pytest.mark.parametrize(("make", "keys", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_changes_nothing(
    run_service: RunService,
    model_of: ModelOf,
    planted: PlantedBackend,
    make: Callable[[ModelOf], str],
    keys: dict[str, Any],
    reason: str,
) -> None:
    running = run_service()
    before = running.service.in_use.plan
    outcome = change(running, model=make(model_of), top_k=1, swap=running.keys["swap"] | keys)
    assert not outcome.ok
    assert reason in outcome.message
    assert running.service.in_use.plan is before
    assert planted.open == 1
    message = reported(running)
    assert message.result is SwapResult.REFUSED
    assert message.reason is not None
    assert reason in message.reason
    running.wait_for_frames(3)
    assert running.serving == {"front": "old"}
    running.assert_nothing_lost()


def test_a_new_model_that_fails_after_the_replacement_loses_no_frame(
    run_service: RunService, model_of: ModelOf, planted: PlantedBackend
) -> None:
    running = run_service()
    before = running.service.in_use.plan
    outcome = change(running, model=model_of("fails-7"), top_k=1)
    assert outcome == ChangeResult(False, "config not reloaded, nothing changed: trial: planted: fails-7")
    message = reported(running)
    assert message.result is SwapResult.ROLLED_BACK
    assert message.models[0].served == 2, "the third frame of the trial is the eighth of all"
    assert running.service.in_use.plan is before
    running.wait_for_frames(3)
    assert running.serving == {"front": "old"}
    assert running.service.parts.pipelines["front"]._settings.top == before.config.top_k
    assert planted.open == 1
    running.assert_nothing_lost()


def test_a_new_model_that_hangs_in_the_shadow_run_is_abandoned(
    run_service: RunService, model_of: ModelOf, planted: PlantedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgemeta.daemon.inference.swap.shadow.FRAME_WITHIN", 0.3)
    monkeypatch.setattr("edgemeta.daemon.inference.swap.shadow.ENDS_WITHIN", 0.1)
    monkeypatch.setattr("edgemeta.daemon.inference.loaded_model.CLOSES_WITHIN", 0.1)
    running = run_service()
    outcome = change(running, model=model_of("hangs-1"))
    assert outcome.message.endswith("shadow run: no answer to a frame within 0.3 s")
    assert planted.open == 2
    running.wait_for_frames(5)
    assert running.serving == {"front": "old"}
    planted.release.set()
    wait_until(lambda: planted.open == 1, "the run in progress to close its session")


def test_a_new_model_that_hangs_after_the_replacement_is_abandoned_with_its_thread(
    run_service: RunService, model_of: ModelOf, planted: PlantedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgemeta.daemon.inference.swap.trial.FRAME_WITHIN", 1.5)
    monkeypatch.setattr("edgemeta.daemon.inference.loaded_model.CLOSES_WITHIN", 0.1)
    running = run_service()
    outcome = change(running, model=model_of("hangs-7"))
    assert planted.hanging.is_set()
    assert outcome.message.endswith("trial: no answer to a frame within 1.5 s")
    assert reported(running).result is SwapResult.ROLLED_BACK
    running.wait_for_frames(3)
    assert running.serving == {"front": "old"}
    assert [thread.name for thread in threading.enumerate()].count("worker") == 2
    counters = running.service.parts.counters["front"]
    planted.release.set()
    wait_until(lambda: planted.open == 1, "the run in progress to close its session")
    wait_until(
        lambda: [thread.name for thread in threading.enumerate()].count("worker") == 1, "the abandoned thread to end"
    )
    assert counters.failed == 0
    sequences = running.newest["front"].frame.sequence
    running.wait_for_frames(1)
    captured, superseded, waiting = running.service.parts.frames.counts("front")
    assert captured >= sequences
    assert captured - superseded - waiting - counters.processed <= 1, "every frame that was taken was answered once"


def test_a_camera_that_is_away(run_service: RunService, model_of: ModelOf, tmp_path: Any) -> None:
    cameras = {
        "front": {"source": "synthetic://", "fps": 200},
        "back": {"source": str(tmp_path / "away.avi"), "model": model_of("own")},
    }
    running = run_service(
        cameras=cameras, swap={"shadow_frames": 5, "trial_frames": 5, "timeout": 0.5}, watch_files=False
    )
    changed = cameras | {"back": cameras["back"] | {"model": model_of("new")}}
    outcome = change(running, cameras=changed)
    assert outcome.message.endswith("shadow run: only 0 of 5 frames within 0.5 s")
    assert reported(running).result is SwapResult.REFUSED
    outcome = change(
        running, cameras=changed, swap={"shadow_frames": 0, "trial_frames": 1, "timeout": 0.5}, watch_files=False
    )
    assert outcome.message.endswith("trial: only 0 of 1 frames within 0.5 s")
    assert reported(running).result is SwapResult.ROLLED_BACK
    running.wait_for_frames(3)
    running.assert_nothing_lost()


def test_each_camera_may_have_its_own_model(
    run_service: RunService, model_of: ModelOf, planted: PlantedBackend
) -> None:
    sources = {name: {"source": "synthetic://", "fps": 100} for name in ("a", "b", "c")}
    own = model_of("own", labels=("x", "y", "z"))
    running = run_service(cameras=sources | {"c": sources["c"] | {"model": own}})
    wait_until(lambda: running.serving == {"a": "old", "b": "old", "c": "own"}, "a frame of each")
    assert planted.open == 2, "cameras share a network"
    info = running.service.parts.telemetry.info()
    assert {name: identity.name for name, identity in info.models.items()} == {"a": "old", "b": "old", "c": "own"}
    assert info.labels == ["red", "green", "blue", "x", "y", "z"]
    outcome = change(running, model=model_of("new"), cameras=sources | {"c": sources["c"] | {"model": own}})
    assert outcome.ok
    assert reported(running).models[0].cameras == ["a", "b"]
    assert running.serving["c"] == "own"
    outcome = change(running, model=model_of("new"), cameras=sources)
    assert outcome.message == "config reloaded: applied cameras.c.model"
    wait_until(lambda: running.serving == dict.fromkeys(sources, "new"), "the common network")
    assert planted.open == 1
    running.assert_nothing_lost()


def test_a_newer_change_cancels_a_swap_that_waits_for_frames(
    run_service: RunService, model_of: ModelOf, planted: PlantedBackend
) -> None:
    running = run_service(swap={"shadow_frames": 10_000, "trial_frames": 1}, watch_files=False)
    outcomes: list[ChangeResult] = []
    thread = threading.Thread(target=lambda: outcomes.append(change(running, model=model_of("new"))))
    thread.start()
    wait_until(lambda: "shadow run" in (running.service.parts.swaps.description or ""), "the shadow run")
    running.service.parts.swaps.cancel("a newer change was requested")
    thread.join(60)
    assert outcomes[0].message.endswith("shadow run: a newer change was requested")
    assert reported(running).result is SwapResult.CANCELLED
    assert planted.open == 1


def test_a_service_that_stops_in_the_middle_of_a_swap(
    run_service: RunService, model_of: ModelOf, planted: PlantedBackend
) -> None:
    running = run_service(swap={"shadow_frames": 10_000, "trial_frames": 1}, watch_files=False)
    thread = threading.Thread(target=lambda: change(running, model=model_of("new")))
    thread.start()
    wait_until(lambda: "shadow run" in (running.service.parts.swaps.description or ""), "the shadow run")
    begun = time.monotonic()
    running.service.parts.swaps.stop()
    running.service.stop(Deadline(2.0))
    thread.join(60)
    assert time.monotonic() - begun < 30, "10,000 frames take 50 s"
    assert planted.open == 0


def test_frames_do_not_wait_for_a_slow_new_model(
    run_service: RunService, model_of: ModelOf, planted: PlantedBackend
) -> None:
    """Frames continue while a run of it does not end, and how long its runs take is told."""
    running = run_service()
    outcomes: list[ChangeResult] = []
    thread = threading.Thread(target=lambda: outcomes.append(change(running, model=model_of("hangs-0"))))
    thread.start()
    assert planted.hanging.wait(60)
    running.wait_for_frames(10)
    planted.release.set()
    thread.join(60)
    assert [outcome.ok for outcome in outcomes] == [True]
    assert change(running, model=model_of("slow-200"), swap=running.keys["swap"] | {"shadow_frames": 3}).ok
    message = reported(running)
    assert message.models[0].shadow is not None
    assert message.models[0].shadow.after_us > 200_000
    assert message.took_us.shadow is not None
    assert message.took_us.shadow > 600_000
    running.assert_nothing_lost()


def test_a_model_that_is_closed_while_it_runs_ends_its_run_first(planted: PlantedBackend, small: Model) -> None:
    from edgemeta.daemon.inference.loaded_model import load_model

    loaded = load_model(small, planted, {}, "cpu", 0)
    batch = small.self_test.batch[:1]  # type: ignore[union-attr]
    thread = threading.Thread(target=lambda: loaded.run(batch)[0])
    thread.start()
    assert planted.hanging.wait(60)
    closer = threading.Thread(target=loaded.close)
    closer.start()
    time.sleep(0.05)
    assert planted.open == 1
    planted.release.set()
    thread.join(60)
    closer.join(60)
    assert planted.open == 0


@pytest.fixture
def small(model_of: ModelOf) -> Model:
    """The model `hangs-0`."""
    from edgemeta.model.file import load

    return load(model_of("hangs-0"))
