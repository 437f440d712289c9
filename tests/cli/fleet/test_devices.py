"""What is known of each device, from topics and payloads; messages that are none are named."""

import json
from typing import Any

from edgemeta.cli.fleet.devices import Device, Fleet

MODEL = {"name": "yard", "sha256": "ab" * 32}


def take(fleet: Fleet, topic: str, content: object, *, retained: bool = True) -> None:
    payload = content.encode() if isinstance(content, str) else json.dumps(content).encode()
    fleet.take(f"home/edge/{topic}", payload, retained=retained)


def info(**keys: Any) -> dict[str, Any]:
    return {"version": "1.0", "model": MODEL, "cameras": ["front", "back"], "newer": 1} | keys


def status(camera: str, name: str = "running", reason: str | None = None) -> dict[str, Any]:
    return {"camera": camera, "status": name, "reason": reason, "problem": reason is not None}


def device(*messages: tuple[str, object], retained: bool = True) -> Device:
    fleet = Fleet("home/edge")
    for topic, content in messages:
        take(fleet, f"a/{topic}", content, retained=retained)
    return fleet.devices["a"]


def test_a_device_that_works_has_no_problem() -> None:
    found = device(
        ("availability", "online"),
        ("info", info()),
        ("front/status", status("front")),
        ("back/status", status("back")),
        ("swap", {"result": "settled", "reason": None}),
    )
    assert (found.state, found.working, list(found.problems()), found.seen) == ("online", 2, [], None)


def test_what_is_wrong_is_one_sentence_each() -> None:
    found = device(
        ("info", info(overloaded="42 % of a processor", model_refused="no such file")),
        ("swap", {"result": "rolled_back", "reason": "0 of 20 frames"}),
        ("front/status", status("front", "failed", "no route to host")),
        ("gone/status", status("gone", "failed", "of a camera that the config no longer has")),
    )
    assert list(found.problems()) == [
        "overloaded: 42 % of a processor",
        "model refused: no such file",
        "last swap rolled_back: 0 of 20 frames",
        "front: failed, no route to host",
    ]
    assert (found.state, found.working) == ("unknown", 0)


def test_rates_of_all_cameras_add_up_and_tell_when_it_was_seen() -> None:
    stats = {"cameras": {"front": {"fps": 4.75}, "back": {"fps": 5.0}}}
    found = device(("stats", stats), retained=False)
    assert found.frames_per_s == 9.75
    assert found.seen is not None


def test_what_is_no_message_is_named_until_it_is_one() -> None:
    fleet = Fleet("home/edge")
    for payload in ("{", "[]", json.dumps({"version": "1.0"})):
        take(fleet, "a/info", payload)
        assert list(fleet.devices["a"].problems()) == ["info: not a message of edgemeta that this version can read"]
    fleet.take("home/edge/b/availability", b"\xff", retained=True)
    assert fleet.devices["b"].unread == {"availability"}
    take(fleet, "a/info", info())
    assert list(fleet.devices["a"].problems()) == []


def test_messages_that_are_cleared_leave_nothing() -> None:
    fleet = Fleet("home/edge")
    for topic, content in (("info", info()), ("availability", "online"), ("front/status", status("front"))):
        take(fleet, f"a/{topic}", content)
    for topic in ("info", "availability", "front/status"):
        take(fleet, f"a/{topic}", "")
    assert fleet.devices == {}


def test_the_object_for_programs_has_all_of_it() -> None:
    found = device(("info", info()), ("front/status", status("front", "black", "the picture is black"))).as_json()
    assert found["cameras"] == {"front": {"status": "black", "reason": "the picture is black", "problem": True}}
    assert (found["model"], found["model_sha256"], found["version"]) == ("yard", "ab" * 32, "1.0")
    assert json.loads(json.dumps(found)) == found
