"""Each step of a rollout follows from its journal and what the devices say."""

from typing import Any

import pytest

from edgemeta.cli.fleet.devices import Device
from edgemeta.cli.fleet.journal import Journal
from edgemeta.cli.fleet.progress import standing, step
from edgemeta.daemon.messages.rollouts import RolloutCommand, WantedModel
from tests.cli.fleet.test_devices import device, info

MODEL = WantedModel(name="new", sha256="ab" * 32, size=5)


def journal(**keys: Any) -> Journal:
    before = RolloutCommand(rollout="zero", device="b", model=MODEL.model_copy(update={"sha256": "cd" * 32}))
    made = Journal(
        id="one", model=MODEL, file="new", stages=[["a"], ["b", "c"]], before={"a": None, "b": before, "c": None}
    )
    return made.model_copy(update={"settle": 0.0} | keys)


def said(state: str, rollout: str = "one", sha256: str | None = "ab" * 32, online: bool = True) -> Device:
    rollouts = {"rollout": rollout, "sha256": sha256, "state": state, "reason": "planted", "percentage": None}
    return device(("info", info(rollout=rollouts)), ("availability", "online" if online else "offline"))


@pytest.mark.parametrize(
    ("found", "late", "expected"),
    [
        (said("done"), False, ("done", "done")),
        (said("failed"), False, ("failed", "planted")),
        (said("trying"), False, ("waiting", "trying: planted")),
        (said("trying"), True, ("failed", "no result within 600 s")),
        (said("done", "zero"), False, ("waiting", "waiting")),
        (said("done", "zero", online=False), True, ("off", "off: it follows when it returns")),
        (said("done", online=False), False, ("waiting", "done: planted")),
        (None, False, ("waiting", "waiting")),
        (None, True, ("failed", "no result within 600 s")),
    ],
)
def test_a_device_stands_where_it_says(found: Device | None, late: bool, expected: tuple[str, str]) -> None:
    each = standing(journal(), found, "a", late)
    assert (each.kind, each.text) == expected


def test_a_stage_that_is_done_is_followed_by_the_next_and_the_last_by_the_end() -> None:
    first = step(journal(), {"a": said("done")}, 1.0, 1.0).next
    assert first is not None
    assert (first.stage, first.state) == (1, "going")
    assert step(first, {"b": said("done"), "c": said("trying")}, 1.0, 1.0).next is None
    assert step(first.model_copy(update={"settle": 5.0}), {"b": said("done"), "c": said("done")}, 9.0, 1.0).next is None
    last = step(first, {"b": said("done"), "c": said("done", "zero", online=False)}, 1.0, 1.0).next
    assert last is not None
    assert last.state == "done"


def test_a_failure_turns_all_devices_back_to_what_each_had() -> None:
    devices = {"a": said("done"), "b": said("failed"), "c": said("done")}
    assert step(journal(stage=1, most_failed=1), devices, 1.0, 1.0).next is not None
    back = step(journal(stage=1), devices, 1.0, 1.0).next
    assert back is not None
    assert (back.state, back.reason) == (
        "undoing",
        "1 of 2 devices of stage 2 failed, such as b: planted",
    )
    assert back.ordered == ["a", "b", "c"]
    assert (back.order("a").model, back.order("a").rollout) == (None, "one-undone")
    assert back.order("b") == back.before["b"]
    assert step(back, devices, 1.0, 1.0).next is None
    there = {"a": said("done", "one-undone", None), "b": said("done", "zero", "cd" * 32)}
    end = step(back, {**there, "c": said("done", "one-undone", None)}, 1.0, 1.0).next
    assert end is not None
    assert end.state == "undone"
