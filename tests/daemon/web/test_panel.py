"""The panel's requests to a running service: who may send them, what they do, and what refuses them."""

import json
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import cv2
import jsonschema
import numpy as np
import pytest

from edgemeta.daemon.collect import collector as collector_module
from edgemeta.daemon.collect.folder import PictureFolder
from edgemeta.daemon.web.panel import PER_PAGE
from rig.waiting import wait_until
from tests.daemon.web.conftest import TOKEN, Answered, Page
from tests.parts import in_parts
from tools.json_schema import files

BEARER = {"Authorization": f"Bearer {TOKEN}"}
SENDS_JSON = {"Content_Type": "application/json"}
ACTIONS = ["/api/collect", "/api/discard", "/api/rename", "/api/teach", "/api/cancel", "/api/use"]
NONE = "0" * 16
"""The key of nothing."""
HOLD = {"camera": "front", "label": "open", "hold": True, "first": True}


def post(page: Page, path: str, body: Any, **headers: str) -> Answered:
    return page.ask(path, "POST", json.dumps(body).encode(), **(BEARER | SENDS_JSON | headers))


def state(page: Page) -> Any:
    return page.ask("/api/collection", **BEARER).json


@pytest.fixture
def page(serve: Callable[..., Page]) -> Page:
    made = serve(web={"token": TOKEN}, collect={"max_fps": 30})
    made.state_with_frames(**BEARER)
    return made


def collect(page: Page, label: str, number: int = 2, camera: str = "front") -> None:
    """Hold the button, as the page does, until so many pictures are kept."""
    hold = HOLD | {"label": label, "camera": camera}
    assert post(page, "/api/collect", hold).status == 200

    def kept() -> int:
        return int(post(page, "/api/collect", hold | {"first": False}).json["cameras"][camera]["kept"])

    wait_until(lambda: kept() >= number, "pictures")
    assert post(page, "/api/collect", hold | {"hold": False}).status == 200
    wait_until(lambda: state(page)["cameras"][camera]["collecting"] is None, "the last picture")


def put(tmp_path: Path, label: str, number: int) -> None:
    """Put pictures into the folder as another program would, a second apart."""
    folder = PictureFolder(tmp_path / "state" / "collected-test" / "front", (0.0, 0.0, 1.0, 1.0))
    jpeg = cv2.imencode(".jpg", np.full((48, 64, 3), 90, np.uint8))[1].tobytes()
    name = folder.prepare(label)
    (folder.folder / name).mkdir()
    noon = datetime(2026, 11, 22, 12, tzinfo=timezone.utc)
    for each in range(number):
        stamp = f"{noon + timedelta(seconds=each):%Y%m%dT%H%M%S}.000Z"
        (folder.folder / name / f"{stamp}-front.jpg").write_bytes(jpeg)


def test_the_state_matches_its_schema(page: Page, tmp_path: Path) -> None:
    collect(page, "gate open")
    found = state(page)
    jsonschema.validate(found, json.loads(files()["collection.schema.json"]))
    assert found["folder"] == str(tmp_path / "state" / "collected-test")
    (label,) = found["cameras"]["front"]["labels"]
    assert label["label"] == "gate open"
    assert label["pictures"] == found["pictures"] >= 2
    assert found["cameras"]["front"]["collecting"] is None


def test_a_held_button_collects_and_a_released_one_does_not(page: Page) -> None:
    answer = post(page, "/api/collect", HOLD)
    assert (answer.status, answer.json["cameras"]["front"]["collecting"]) == (200, "open")
    wait_until(lambda: state(page)["cameras"]["front"]["kept"] >= 2, "pictures")
    wait_until(lambda: state(page)["cameras"]["front"]["collecting"] is None, "the end of what is not renewed")


def test_collecting_ends_with_the_last_picture(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames that wait when the button is released are still to come: the page counts on, and nothing is renamed."""
    written, add = threading.Event(), PictureFolder.add
    monkeypatch.setattr(PictureFolder, "add", lambda *picture: written.wait(60) and add(*picture))
    assert post(page, "/api/collect", HOLD).status == 200
    wait_until(lambda: state(page)["cameras"]["front"]["waiting"] > 0, "a frame")
    released = post(page, "/api/collect", HOLD | {"hold": False}).json["cameras"]["front"]
    assert (released["collecting"], released["kept"]) == ("open", 0)
    refused = post(page, "/api/rename", {"camera": "front", "label": "open", "name": "ajar"})
    assert (refused.status, refused.text) == (409, "camera front is collecting just now\n")
    written.set()
    wait_until(lambda: state(page)["cameras"]["front"]["collecting"] is None, "the last picture")
    front = state(page)["cameras"]["front"]
    assert [label["pictures"] for label in front["labels"]] == [front["kept"]]
    assert front["kept"] >= released["waiting"] > 0


def test_two_browsers(page: Page) -> None:
    """The same label together; another label of the same camera is refused, and says why."""
    assert post(page, "/api/collect", HOLD).status == 200
    assert post(page, "/api/collect", HOLD).status == 200
    refused = post(page, "/api/collect", HOLD | {"label": "closed"})
    assert (refused.status, refused.text) == (409, "camera front is collecting 'open' just now\n")
    assert post(page, "/api/collect", HOLD).status == 200
    refused = post(page, "/api/rename", {"camera": "front", "label": "open", "name": "ajar"})
    assert (refused.status, refused.text) == (409, "camera front is collecting just now\n")


def test_pictures_are_looked_through_thrown_away_and_renamed(page: Page) -> None:
    collect(page, "open", 3)
    (label,) = state(page)["cameras"]["front"]["labels"]
    listed = page.ask(f"/api/pictures/front/{label['key']}/1", **BEARER).json
    assert len(listed["pictures"]) == label["pictures"]
    captured = [picture["captured"] for picture in listed["pictures"]]
    assert captured == sorted(captured, reverse=True)
    first, *others = [picture["id"] for picture in listed["pictures"]]
    answer = page.ask(f"/picture/front/{first}.jpg", **BEARER)
    assert (answer.status, answer.headers["content-type"]) == (200, "image/jpeg")
    assert max(cv2.imdecode(np.frombuffer(answer.body, np.uint8), 1).shape) == 160
    assert post(page, "/api/discard", {"camera": "front", "pictures": [first]}).json["pictures"] == len(others)
    assert page.ask(f"/picture/front/{first}.jpg", **BEARER).status == 404
    renamed = post(page, "/api/rename", {"camera": "front", "label": "open", "name": "gate open"}).json
    assert [each["label"] for each in renamed["cameras"]["front"]["labels"]] == ["gate open"]
    assert page.ask(f"/api/pictures/front/{label['key']}/1", **BEARER).status == 404
    for name, reason in (("..", "expected 1 to 60"), ("x" * 200, "expected 1 to 60"), ("gate open", "exists already")):
        refused = post(page, "/api/rename", {"camera": "front", "label": "gate open", "name": name})
        assert (refused.status, reason in refused.text) == (409, True) or name == "gate open"
    assert post(page, "/api/rename", {"camera": "front", "label": "open", "name": "x"}).status == 409


@pytest.mark.gate("5 s: ten thousand files")
def test_ten_thousand_pictures(page: Page, tmp_path: Path) -> None:
    """Each page has the same few, and asking for one takes no longer than a glance."""
    put(tmp_path, "open", 10_000)
    (label,) = state(page)["cameras"]["front"]["labels"]
    assert label["pictures"] == 10_000
    time.sleep(0.2)  # the listing counts as settled
    seen: set[str] = set()
    for number in (1, 2, 100, 417):
        began = time.monotonic()
        found = page.ask(f"/api/pictures/front/{label['key']}/{number}", **BEARER)
        assert time.monotonic() - began < 10
        assert len(found.body) < 10_000
        assert (found.json["page"], found.json["pages"]) == (number, 417)
        seen |= {picture["id"] for picture in found.json["pictures"]}
    assert len(seen) == 3 * PER_PAGE + 10_000 % PER_PAGE
    assert page.ask(f"/api/pictures/front/{label['key']}/999999", **BEARER).json["page"] == 417
    refused = post(page, "/api/collect", HOLD)
    assert (refused.status, "10,000 pictures are kept, and `collect.max_pictures` is 2,000" in refused.text) == (
        409,
        True,
    )
    assert page.ask("/healthz", **BEARER).status == 200


def test_what_was_collected_is_there_after_a_restart(serve: Callable[..., Page], page: Page) -> None:
    collect(page, "open")
    again = serve(web={"token": TOKEN})
    assert state(again)["cameras"] == {
        "front": state(page)["cameras"]["front"] | {"kept": 0},
    }


def test_without_a_token_nothing_is_shown_and_nothing_changes(page: Page, tmp_path: Path) -> None:
    put(tmp_path, "open", 1)
    (label,) = state(page)["cameras"]["front"]["labels"]
    pictures = f"/api/pictures/front/{label['key']}/1"
    picture = f"/picture/front/{page.ask(pictures, **BEARER).json['pictures'][0]['id']}.jpg"
    for path in ("/api/collection", pictures, picture):
        assert page.ask(path).status == 401
    for path in ACTIONS:
        assert page.ask(path, "POST", json.dumps(HOLD).encode(), **SENDS_JSON).status == 401
        assert page.ask(path, **BEARER).status == 404, "a button is no link"
    assert state(page)["cameras"]["front"]["collecting"] is None


def cookie_of(page: Page) -> str:
    signed = page.ask("/sign-in", method="POST", body=f"token={TOKEN}".encode())
    return signed.headers["set-cookie"].partition(";")[0]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site", "Origin": "http://127.0.0.1:{port}"}, 403),
        ({"Sec_Fetch_Site": "none"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "http://127.0.0.1:{port}", "Content_Type": "text/plain"}, 415),
        ({"Origin": "http://127.0.0.1:{port}", "Content_Type": "application/x-www-form-urlencoded"}, 415),
        ({"Origin": "http://127.0.0.1:{port}"}, 200),
        ({"Sec_Fetch_Site": "same-origin"}, 200),
        ({"Sec_Fetch_Site": "same-origin", "Origin": "https://behind-a-proxy.example"}, 200),
    ],
)
def test_a_cookie_is_enough_only_from_the_page_itself(page: Page, headers: dict[str, str], status: int) -> None:
    given = {name: value.format(port=page.port) for name, value in headers.items()}
    answer = page.ask(
        "/api/collect", "POST", json.dumps(HOLD).encode(), **(SENDS_JSON | {"Cookie": cookie_of(page)} | given)
    )
    assert answer.status == status
    assert (state(page)["cameras"]["front"]["collecting"] is not None) == (status == 200)


@pytest.mark.parametrize(
    ("web", "reason"), [({}, "need an access token"), ({"token": TOKEN, "show_frames": False}, "show_frames is false")]
)
def test_where_it_is_not_offered_it_says_why(serve: Callable[..., Page], web: dict[str, Any], reason: str) -> None:
    page = serve(web=web)
    assert page.service.parts.collection is None
    found = state(page)
    assert reason in found["unavailable"]
    assert found["cameras"] == {}
    for path in ACTIONS:
        assert post(page, path, HOLD).status == 403
    assert page.ask("/api/pictures/front/" + "0" * 16 + "/1", **BEARER).status == 403


BODIES = [
    b"",
    b"[]",
    b"{}",
    b"\xff",
    b'{"camera": "front"}',
    b'{"camera": ["front"], "label": "a", "hold": true}',
    b'{"camera": "../..", "label": "a", "hold": true, "pictures": ["../../../../etc"], "name": "b"}',
    b'{"camera": "front", "label": "\\ud800", "hold": true}',
    b'{"camera": "front", "label": "a", "hold": true, "more": 1}',
    json.dumps({"camera": "front", "pictures": ["0" * 16] * 101}).encode(),
]


@in_parts({f"{path}-{n}": (path, body) for path in ACTIONS[:3] for n, body in enumerate(BODIES)}, len(BODIES))
def test_a_wrong_body_is_one_sentence(row: tuple[str, bytes], page: Page) -> None:
    path, body = row
    answer = page.ask(path, "POST", body, **(BEARER | SENDS_JSON))
    assert answer.status == 409
    assert answer.text.count("\n") == 1
    assert "found" in answer.text or "unknown camera" in answer.text
    assert state(page)["pictures"] == 0


def test_a_long_body_is_refused(page: Page) -> None:
    answer = page.ask("/api/collect", "POST", b"x" * 5000, **(BEARER | SENDS_JSON))
    assert (answer.status, answer.text) == (413, "at most 4096 bytes are accepted\n")


def test_what_does_not_exist(page: Page) -> None:
    for path in (f"/api/pictures/front/{NONE}/1", f"/picture/front/{NONE}.jpg", "/picture/front/..%2f.jpg"):
        assert page.ask(path, **BEARER).status == 404, path


def test_an_unknown_camera(page: Page) -> None:
    answer = page.ask("/picture/side/" + "0" * 16 + ".jpg", **BEARER)
    assert (answer.status, answer.text) == (409, "unknown camera side\n")


def test_a_damaged_picture_is_one_sentence(page: Page, tmp_path: Path) -> None:
    put(tmp_path, "open", 1)
    (file,) = (tmp_path / "state" / "collected-test" / "front" / "open").iterdir()
    file.write_bytes(b"\xff\xd8 no picture")
    (label,) = state(page)["cameras"]["front"]["labels"]
    (picture,) = page.ask(f"/api/pictures/front/{label['key']}/1", **BEARER).json["pictures"]
    answer = page.ask(f"/picture/front/{picture['id']}.jpg", **BEARER)
    assert (answer.status, answer.text) == (409, "the picture cannot be decoded\n")


def test_a_full_disk_is_told_and_the_service_continues(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector_module, "COUNTS_EVERY", 0.0)
    assert post(page, "/api/collect", HOLD).status == 200
    wait_until(lambda: state(page)["cameras"]["front"]["kept"] >= 1, "a picture")
    monkeypatch.setattr(collector_module, "RESERVE", 10**18)
    wait_until(lambda: state(page)["cameras"]["front"]["problem"] is not None, "the problem")
    refused = post(page, "/api/collect", HOLD | {"first": False})
    assert (refused.status, "stay free for the service" in refused.text) == (409, True)
    assert state(page)["cameras"]["front"]["labels"][0]["pictures"] >= 1
    assert page.ask("/healthz", **BEARER).status == 200


def test_a_folder_that_cannot_be_written(serve: Callable[..., Page], tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file in its place")
    page = serve(web={"token": TOKEN}, collect={"folder": str(tmp_path / "taken")})
    refused = post(page, "/api/collect", HOLD)
    assert (refused.status, refused.text.count("\n")) == (409, 1)
    assert f"{tmp_path / 'taken'}" in refused.text


def test_a_camera_that_goes_keeps_what_it_has(serve: Callable[..., Page], colours: Path) -> None:
    page = serve(
        web={"token": TOKEN},
        collect={"max_fps": 30},
        cameras={"front": {"source": str(colours / "2.png"), "loop": True, "fps": 20, "frame_timeout": 1}},
    )
    page.state_with_frames(**BEARER)
    collect(page, "open")
    (colours / "2.png").unlink()
    page.wait("/api/state", lambda answer: answer.json["cameras"]["front"]["status"] == "failed", **BEARER)
    kept = state(page)["pictures"]
    answer = post(page, "/api/collect", HOLD)
    assert answer.status == 200
    assert state(page)["cameras"]["front"]["kept"] == 0
    assert state(page)["pictures"] == kept


def test_limits_apply_at_once_after_a_reload(page: Page) -> None:
    from dataclasses import replace

    collect(page, "open", 2)
    running = page.service.in_use.plan
    limits = running.config.collect.model_copy(update={"max_pictures": 1})
    page.service.apply(replace(running, config=running.config.model_copy(update={"collect": limits})))
    assert "`collect.max_pictures` is 1" in post(page, "/api/collect", HOLD).text


def test_an_error_on_the_disk_thread_is_answered_and_the_next_request_too(
    page: Page, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: object) -> None:
        raise ZeroDivisionError("planted")

    with monkeypatch.context() as planted:
        planted.setattr("edgemeta.daemon.web.panel._state", broken)
        assert page.ask("/api/collection", **BEARER).status == 500
    assert "planted" in caplog.text
    assert page.ask("/api/collection", **BEARER).status == 200


def test_a_disk_that_hangs_delays_no_other_answer(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgemeta.daemon.web.server.DISK_TIMEOUT", 0.5)
    answers = threading.Event()
    monkeypatch.setattr("edgemeta.daemon.web.panel._state", lambda *_: answers.wait(60))
    began = time.monotonic()
    answer = page.ask("/api/collection", **BEARER)
    assert (answer.status, "the disk did not answer" in answer.text) == (503, True)
    assert page.ask("/healthz", **BEARER).status == 200
    assert time.monotonic() - began < 30
    answers.set()


def test_teaching_needs_two_labels_and_use_needs_a_model(page: Page) -> None:
    refused = post(page, "/api/teach", {"camera": "front"})
    assert (refused.status, "found pictures of 0 labels, expected at least 2" in refused.text) == (409, True)
    refused = post(page, "/api/use", {"camera": "front"})
    assert refused.text == "no network was taught for camera front since the service started\n"
    assert post(page, "/api/cancel", {"camera": "front"}).status == 200
