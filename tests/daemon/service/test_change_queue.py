"""Changes requested while others are in progress: one at a time, the newest reload wins, floods are bounded."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgemeta.daemon.capture.camera import Camera
from edgemeta.daemon.messages.commands import SetCommand
from edgemeta.daemon.service.change_queue import WAITING, ChangeQueue
from edgemeta.daemon.service.change_result import ChangeResult
from edgemeta.daemon.service.plan import Plan
from edgemeta.daemon.service.reload import NOTHING_CHANGED
from rig.waiting import wait_until
from tests.daemon.service.conftest import Running


class Reported:
    """Records what would be reported to the service manager."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def change_started(self) -> None:
        self.messages.append("changing")

    def change_finished(self, message: str) -> None:
        self.messages.append(message)


class Rig:
    def __init__(self, running: Running) -> None:
        self.running = running
        self.reported = Reported()
        self.outcomes: list[ChangeResult] = []
        self.faults: list[BaseException] = []
        self.changes = ChangeQueue(running.service, self.reported, self.faults.append)

    def reload(self) -> None:
        self.changes.reload("signal", self.outcomes.append)

    def wait(self, count: int) -> list[ChangeResult]:
        wait_until(lambda: len(self.outcomes) == count, f"{count} outcomes")
        return self.outcomes


@pytest.fixture
def rig_of() -> Iterator[Callable[[Running], Rig]]:
    made: list[Rig] = []

    def make(running: Running) -> Rig:
        made.append(Rig(running))
        return made[-1]

    yield make
    for rig in made:
        rig.changes.stop(10.0)
        assert rig.faults == []


RunService = Callable[..., Running]
ModelOf = Callable[..., str]
RigOf = Callable[[Running], Rig]


def test_a_newer_reload_cancels_a_swap_that_waits_for_its_frames(
    run_service: RunService, model_of: ModelOf, rig_of: RigOf
) -> None:
    running = run_service()
    rig = rig_of(running)
    rig.changes.start()
    running.change(model=model_of("first"), swap={"shadow_frames": 10_000, "trial_frames": 1}, watch_files=False)
    rig.reload()
    wait_until(lambda: "shadow run" in (running.service.parts.swaps.description or ""), "the shadow run")
    running.change(model=model_of("second"))
    rig.reload()
    first, second = rig.wait(2)
    assert first.message.endswith("shadow run: a newer change was requested")
    assert second == ChangeResult(True, "config reloaded: applied model")
    wait_until(lambda: running.serving == {"front": "second"}, "the second model")
    assert running.service.parts.swaps.results == {"swapped": 1, "rolled_back": 0, "refused": 0, "cancelled": 1}
    assert rig.reported.messages[:2] == ["changing", "model swap started"]
    assert rig.reported.messages[-1] == second.message


def test_a_setting_interrupts_a_reload_which_goes_on_and_leaves_the_setting(
    run_service: RunService, model_of: ModelOf, rig_of: RigOf
) -> None:
    running = run_service()
    rig = rig_of(running)
    rig.changes.start()
    running.change(model=model_of("first"), swap={"shadow_frames": 10_000, "trial_frames": 1})
    rig.reload()
    wait_until(lambda: "shadow run" in (running.service.parts.swaps.description or ""), "the shadow run")
    running.change(model=model_of("first"), swap={"shadow_frames": 1, "trial_frames": 1})
    rig.changes.set_settings(lambda plan: {"front": SetCommand(max_fps=100.0)}, rig.outcomes.append)
    interrupted, done = rig.wait(2)
    assert interrupted.cancelled
    assert done == ChangeResult(True, "settings: applied cameras.front.max_fps")
    wait_until(lambda: running.serving == {"front": "first"}, "the model of the reload")
    wait_until(lambda: rig.reported.messages[-1].startswith("config reloaded: applied model"), "the end of the reload")
    assert running.service.in_use.plan.config.cameras["front"].max_fps == 100.0


def test_equal_changes_that_wait_are_one_and_a_flood_is_bounded(run_service: RunService, rig_of: RigOf) -> None:
    rig = rig_of(run_service())
    for _ in range(3):
        rig.reload()
    chosen: list[str] = []

    def choose(name: str) -> Callable[[Plan], Plan]:
        return lambda running: chosen.append(name) or running  # type: ignore[func-returns-value]

    for number in range(WAITING - 1):
        for _ in range(2):
            rig.changes.swap_model(choose(str(number)), rig.outcomes.append, (str(number), None))
    assert rig.outcomes == []
    rig.changes.swap_model(choose("one more"), rig.outcomes.append, ("one more", None))
    assert rig.outcomes == [ChangeResult(False, f"busy: {WAITING} changes wait already")]
    rig.changes.start()
    rig.wait(1 + 3 + 2 * (WAITING - 1))
    assert rig.outcomes[1:] == [NOTHING_CHANGED] * (3 + 2 * (WAITING - 1))
    assert chosen == [str(number) for number in range(WAITING - 1)]
    assert rig.reported.messages.count("changing") == WAITING


def test_answers_that_wait_for_one_change_are_bounded(run_service: RunService, rig_of: RigOf) -> None:
    rig = rig_of(run_service())
    for _ in range(WAITING + 1):
        rig.reload()
    assert rig.outcomes == [ChangeResult(False, f"busy: {WAITING} wait for the same change already")]
    rig.changes.start()
    assert rig.wait(1 + WAITING)[1:] == [NOTHING_CHANGED] * WAITING
    assert rig.reported.messages == ["changing", NOTHING_CHANGED.message]


def test_what_the_watch_finds_does_not_cancel_a_requested_answer(run_service: RunService, rig_of: RigOf) -> None:
    rig = rig_of(run_service())
    rig.reload()
    rig.changes.reload("file", rig.outcomes.append)
    rig.changes.start()
    rig.wait(2)
    assert rig.reported.messages == ["changing", NOTHING_CHANGED.message]


def test_a_saved_config_is_read_however_many_commands_wait(run_service: RunService, rig_of: RigOf) -> None:
    """The watcher reports a change only once: after a flood of commands it must not be lost."""
    running = run_service()
    rig = rig_of(running)
    for _ in range(WAITING):
        rig.changes.swap_model(lambda plan: plan, rig.outcomes.append)
    running.change(top_k=1)
    rig.changes.reload("file", rig.outcomes.append)
    rig.changes.start()
    assert rig.wait(WAITING + 1)[-1].message == "config reloaded: applied top_k"


def test_a_mistake_that_was_corrected_is_reported_although_nothing_changed(
    run_service: RunService, rig_of: RigOf
) -> None:
    """Otherwise the status would still say that the config was not reloaded."""
    running = run_service()
    rig = rig_of(running)
    rig.changes.start()
    running.change(top_k=0)
    rig.changes.reload("file", rig.outcomes.append)
    rig.wait(1)
    running.change()
    rig.changes.reload("file", rig.outcomes.append)
    rig.wait(2)
    assert "top_k: found 0" in rig.reported.messages[0]
    assert rig.reported.messages[1:] == [NOTHING_CHANGED.message]


@pytest.mark.gate("2 s of processor time")
def test_the_watch_reloads_and_reports_nothing_without_a_change(
    run_service: RunService, rig_of: RigOf, model_of: ModelOf
) -> None:
    running = run_service(swap={"shadow_frames": 2, "trial_frames": 2}, watch_files=True)
    rig = rig_of(running)
    rig.changes.start()
    path: Path = running.change()
    path.write_text(path.read_text() + "# a comment\n")
    rig.changes.reload("file", rig.outcomes.append)
    assert rig.wait(1) == [NOTHING_CHANGED]
    assert rig.reported.messages == []
    model_of("old", labels=("blue", "green", "red"))
    wait_until(lambda: "config reloaded: applied model" in rig.reported.messages, "the watch to see the new file")
    assert "changing" not in rig.reported.messages


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (MemoryError(), "too little memory"),
        (OSError(5, "Input/output error", "/data/model"), "/data/model: Input/output error"),
        (RuntimeError("rtsp://me:geheim@camera/x"), "RuntimeError: rtsp://camera"),
    ],
)
def test_no_error_of_a_reload_ends_the_service(
    run_service: RunService,
    rig_of: RigOf,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    reason: str,
) -> None:
    running = run_service()
    rig, before = rig_of(running), running.service.in_use.plan
    rig.changes.start()

    def fails(*_: object) -> Plan:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr("edgemeta.daemon.service.reload.prepare", fails)
        rig.reload()
        (outcome,) = rig.wait(1)
    assert outcome == ChangeResult(False, f"change not made, nothing changed: {reason}")
    assert rig.reported.messages[-1] == outcome.message
    assert "geheim" not in caplog.text
    assert running.service.in_use.plan is before
    running.change(top_k=2)
    rig.reload()
    assert rig.wait(2)[1].message == "config reloaded: applied top_k"


def test_a_change_that_fails_half_way_is_taken_back(
    run_service: RunService, rig_of: RigOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too few threads for the cameras of a new config: those of the old one run again."""
    running = run_service()
    rig, before = rig_of(running), running.service.in_use.plan.config
    rig.changes.start()
    failing = iter([True])
    start = Camera.start

    def no_thread(camera: Camera) -> None:
        if next(failing, False):
            raise RuntimeError("can't start new thread")
        start(camera)

    monkeypatch.setattr(Camera, "start", no_thread)
    running.change(cameras={"front": {"source": "synthetic://?seed=9", "fps": 50}}, top_k=2)
    rig.reload()
    (outcome,) = rig.wait(1)
    assert outcome.message == "change not made, nothing changed: RuntimeError: can't start new thread"
    assert running.service.in_use.plan.config == before
    frames = running.service.parts.health().frames
    wait_until(lambda: running.service.parts.health().frames > frames + 3, "frames of the old camera")
