"""The routes of a running service over HTTP: health, state, frames, metrics, and unknown paths."""

import base64
import json
import logging
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from edgemeta.daemon.web import routes as module
from edgemeta.daemon.web.access import WRONG_TOKEN_DELAY
from edgemeta.daemon.web.request import Request
from edgemeta.daemon.web.response import GUARDS, Response, head_of
from edgemeta.daemon.web.routes import FILES
from rig.square_detector import save_square_detector, write_squares
from tests.daemon.web.conftest import TOKEN
from tools.json_schema import files

KNOWN = ["/api/state", "/frame/front.jpg", "/metrics", "/readyz"]
"""Paths with data of the device, without /api/events, which does not end."""


def test_the_state_matches_its_schema_and_has_the_newest_frame(serve: Any, colours: Path) -> None:
    page = serve(
        cameras={"front": {"source": str(colours / "2.png"), "loop": True, "fps": 30}}, stats={"interval": 0.3}
    )
    state = page.wait("/api/state", lambda answer: answer.json["stages"] and answer.json["cameras"]["front"]["frame"])
    assert state.headers["content-type"] == "application/json"
    jsonschema.validate(state.json, json.loads(files()["page.schema.json"]))
    camera = state.json["cameras"]["front"]
    assert (camera["status"], camera["description"]) == ("running", "running")
    assert camera["frame"]["labels"][0]["label"] == "blue"
    assert 0 <= camera["age_s"] < 20
    assert state.json["info"]["model"]["name"] == "colour"
    assert state.json["broker"]["state"] in ("connecting", "unreachable")
    assert state.json["outbox"]["waiting"] > 0
    assert state.json["stages"]["latency_us"]["inference"]["p50"] > 0
    assert state.json["hanging_threads"] == []


def test_a_jpeg_is_the_newest_frame(serve: Any, colours: Path) -> None:
    page = serve(cameras={"front": {"source": str(colours / "0.png"), "loop": True, "fps": 30}})
    page.state_with_frames()
    answer = page.ask("/frame/front.jpg?17")
    assert (answer.status, answer.headers["content-type"]) == (200, "image/jpeg")
    picture = cv2.imdecode(np.frombuffer(answer.body, np.uint8), cv2.IMREAD_COLOR)
    assert picture.shape == (48, 64, 3)
    np.testing.assert_allclose(picture[24, 32], (0, 0, 255), atol=8)


def test_a_picture_with_the_objects_of_its_own_frame(serve: Any, tmp_path: Path) -> None:
    """The page's state is of a later frame; zones are those of the config, also after a reload."""
    write_squares(tmp_path / "squares.png", {(1, 1): "red"})
    polygon = [[0.0, 0.0], [0.5, 0.0], [0.5, 0.5]]
    page = serve(
        model=str(save_square_detector(tmp_path / "squares.safetensors")),
        cameras={
            "front": {
                "source": str(tmp_path / "squares.png"),
                "loop": True,
                "fps": 30,
                "zones": {"yard": {"polygon": polygon}},
                "lines": {"gate": {"points": polygon[:2]}},
            }
        },
    )
    camera = page.state_with_frames()["cameras"]["front"]
    assert (camera["task"], camera["zones"]) == ("detection", {"yard": polygon})
    assert camera["lines"] == {"gate": polygon[:2]}
    answer = page.ask("/frame/front.json")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    picture = cv2.imdecode(np.frombuffer(base64.b64decode(answer.json["jpeg"]), np.uint8), cv2.IMREAD_COLOR)
    assert picture.shape == (192, 256, 3)
    (found,) = answer.json["objects"]
    assert (found["label"], found["box"], found["zones"]) == ("red", [32, 32, 64, 64], [])
    assert answer.json["sequence"] >= 1
    running = page.service.in_use.plan
    moved = running.config.cameras["front"].model_copy(update={"zones": {}})
    page.service.apply(replace(running, config=running.config.model_copy(update={"cameras": {"front": moved}})))
    page.wait("/api/state", lambda answer: answer.json["cameras"]["front"]["zones"] == {})


def test_a_camera_without_frames_and_an_unknown_one(serve: Any, tmp_path: Path) -> None:
    page = serve(cameras={"gone": {"source": str(tmp_path / "gone.png")}})
    answer = page.ask("/frame/gone.jpg")
    assert answer.status == 404
    assert answer.text == "no frame of camera gone yet, or frames are not shown\n"
    answer = page.ask("/frame/other.jpg")
    assert (answer.status, answer.text) == (404, "unknown camera other\n")
    failed = page.wait("/api/state", lambda answer: answer.json["cameras"]["gone"]["status"] == "failed").json
    assert "does not exist" in failed["cameras"]["gone"]["description"]
    assert failed["cameras"]["gone"]["frame"] is None


def test_where_pictures_are_switched_off_none_is_given_or_kept(serve: Any) -> None:
    page = serve(web={"show_frames": False})
    assert page.state_with_frames()["pictures"] is False
    assert page.ask("/frame/front.jpg").status == 404
    assert page.ask("/api/state").json["cameras"]["front"]["frame"]["labels"]


NOWHERE = [
    "/nothing",
    "/../../etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "//etc/passwd",
    "/index.html",
    "/page/index.html",
    "/page.css/",
    "/sign-in",
    "/api/state/",
    "/frame/",
    "/frame/front.png",
    "/frame/..%2f.jpg",
    "/frame/../page.css",
]


def test_what_is_nowhere_is_told_in_one_line(serve: Any) -> None:
    page = serve()
    for path in NOWHERE:
        answer = page.ask(path)
        assert (path, answer.status, answer.text) == (path, 404, "not found\n")


def test_the_files_of_the_page(serve: Any) -> None:
    page = serve()
    index = page.ask("/")
    assert (index.status, index.headers["content-type"]) == (200, "text/html; charset=utf-8")
    for name, kind in FILES.items():
        answer = page.ask(f"/{name}")
        assert (answer.status, answer.headers["content-type"]) == (200, kind)
        assert b"http://" not in answer.body.replace(b"http://www.w3.org/2000/svg", b"")
        assert b"https://" not in answer.body


def test_every_answer_keeps_other_sites_and_old_copies_out(serve: Any) -> None:
    page = serve()
    for path in ("/", "/page.css", "/nothing", *KNOWN):
        headers = page.ask(path).headers
        assert {name.lower(): value for name, value in GUARDS.items()}.items() <= headers.items()
        assert "access-control-allow-origin" not in headers


def test_head_is_the_answer_without_its_body(serve: Any) -> None:
    page = serve()
    page.state_with_frames()
    whole, head = page.ask("/healthz"), page.ask("/healthz", method="HEAD")
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", whole.headers["content-length"])
    assert page.ask("/api/events", method="HEAD").headers["content-type"] == "text/event-stream"


def test_only_get_and_head_are_answered(serve: Any) -> None:
    page = serve()
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH"):
        answer = page.ask("/api/state", method=method)
        assert (answer.status, answer.headers["allow"]) == (405, "GET")


def test_metrics_are_prometheus_text(serve: Any) -> None:
    page = serve()
    page.state_with_frames()
    answer = page.ask("/metrics")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    (sample,) = families["edgemeta_frames_captured"].samples
    assert sample.labels == {"camera": "front"}
    assert sample.value >= 1
    assert answer.headers["content-type"].startswith("text/plain; version=")


def let_hang(heartbeat: Any) -> None:
    heartbeat.expect_within = lambda *_: None  # no more news of this thread
    heartbeat.clear = lambda: None
    heartbeat._by, heartbeat._what = 0.0, "reading a frame"


def test_alive_until_a_thread_hangs(serve: Any) -> None:
    page = serve()
    assert (page.ask("/healthz").status, page.ask("/healthz").text) == (200, "alive\n")
    let_hang(page.service.parts.cameras._cameras["front"].heartbeat)
    assert (page.ask("/healthz").status, page.ask("/healthz").text) == (503, "hangs\n")
    answer = page.ask("/readyz")
    assert answer.status == 503
    assert answer.text.startswith("not ready\ncamera front hangs: reading a frame, ")
    (problem,) = page.ask("/api/state").json["hanging_threads"]
    assert problem.startswith("camera front hangs: reading a frame, ")


def test_ready_while_cameras_run_and_the_broker_takes_messages(serve: Any, broker: Any) -> None:
    page = serve(mqtt={"host": "127.0.0.1", "port": broker.port, "retry": {"initial_delay": 0.05, "max_delay": 0.1}})
    ready = page.wait("/readyz", lambda answer: answer.status == 200)
    assert ready.text == f"ready\ncamera front running\nbroker 127.0.0.1:{broker.port} connected\n"
    assert page.ask("/api/state").json["broker"] == {
        "address": f"127.0.0.1:{broker.port}",
        "state": "connected",
        "reason": None,
        "refuses": None,
    }
    broker.stop()
    not_ready = page.wait("/readyz", lambda answer: answer.status == 503 and "refused" in answer.text)
    assert not_ready.text.startswith("not ready\ncamera front running\nbroker ")
    broker.start()
    page.wait("/readyz", lambda answer: answer.status == 200)


def test_not_ready_while_a_camera_fails(serve: Any, broker: Any, tmp_path: Path) -> None:
    page = serve(
        mqtt={"host": "127.0.0.1", "port": broker.port},
        cameras={"front": {"source": "synthetic://"}, "gone": {"source": str(tmp_path / "gone.png")}},
    )
    answer = page.wait("/readyz", lambda answer: "gone failed" in answer.text and "connected" in answer.text)
    assert answer.status == 503
    assert f"camera gone failed: {tmp_path / 'gone.png'} does not exist" in answer.text


def test_with_a_token_nothing_is_told_without_it(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgemeta.daemon.web.access.WRONG_TOKEN_DELAY", 0.01)
    page = serve(web={"token": TOKEN})
    page.state_with_frames(Authorization=f"Bearer {TOKEN}")
    for path in (*KNOWN, "/api/events", "/nothing"):
        for headers in ({}, {"Authorization": f"Bearer {TOKEN}s"}, {"Cookie": f"edgemeta-test={TOKEN}"}):
            answer = page.ask(path, **headers)
            assert answer.status == 401
            assert answer.headers["www-authenticate"] == 'Bearer realm="edgemeta"'
            assert answer.headers["content-type"] == "text/plain; charset=utf-8"
            assert answer.text.count("\n") == 1


def test_health_is_one_word_for_everybody(serve: Any) -> None:
    """Programs that decide about restarts ask without the token, and by any name of the machine."""
    for page in (serve(), serve(web={"token": TOKEN})):
        for headers in ({}, {"Authorization": "Bearer guess"}, {"Host": "camera.example"}):
            answer = page.ask("/healthz", **headers)
            assert (answer.status, answer.text) == (200, "alive\n")


@pytest.mark.parametrize("dockerfile", ["Dockerfile", "Dockerfile.l4t"])
def test_the_images_health_check_needs_no_token(serve: Any, repository: Path, dockerfile: str) -> None:
    page = serve(web={"token": TOKEN})
    text = (repository / "docker" / dockerfile).read_text()
    (program,) = re.findall(r'^  CMD \[".*python3?", "-c", "(.*)"\]$', text, re.MULTILINE)
    asked = [sys.executable, "-I", "-c", program.replace(":8480/", f":{page.port}/")]
    subprocess.run(asked, check=True, timeout=60)
    let_hang(page.service.parts.cameras._cameras["front"].heartbeat)
    assert subprocess.run(asked, stderr=subprocess.DEVNULL, timeout=60).returncode != 0


def test_a_wrong_token_is_answered_late(serve: Any) -> None:
    page = serve(web={"token": TOKEN})
    began = time.monotonic()
    assert page.ask("/readyz", Authorization="Bearer guess").status == 401
    assert time.monotonic() - began >= WRONG_TOKEN_DELAY


def test_a_browser_is_asked_for_the_token_and_remembered(
    serve: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgemeta.daemon.web.routes.WRONG_TOKEN_DELAY", 0.01)
    page = serve(web={"token": TOKEN})
    asked = page.ask("/")
    assert asked.status == 401
    assert 'data-wrong="no"' in asked.text
    wrong = page.ask("/sign-in", method="POST", body=b"token=guess")
    assert wrong.status == 401
    assert 'data-wrong="yes"' in wrong.text
    assert "set-cookie" not in wrong.headers
    right = page.ask("/sign-in", method="POST", body=f"token={TOKEN}".encode())
    assert (right.status, right.headers["location"]) == (303, "./")
    cookie = right.headers["set-cookie"].partition(";")[0]
    assert page.ask("/", Cookie=cookie).status == 200
    assert page.state_with_frames(Cookie=cookie)["info"]["device"] == "test"
    assert page.ask("/frame/front.jpg", Cookie=cookie).status == 200
    assert TOKEN not in caplog.text


def test_a_token_makes_other_names_of_the_machine_harmless(serve: Any) -> None:
    page = serve(web={"token": TOKEN})
    assert page.ask("/metrics", Authorization=f"Bearer {TOKEN}", Host="camera.example").status == 200
    assert serve().ask("/metrics", Host="camera.example").status == 421


def test_an_error_in_an_answer_is_logged_and_the_service_continues(
    serve: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: object) -> None:
        raise ZeroDivisionError("planted")

    page = serve()
    monkeypatch.setattr(module, "exposition", broken)
    with caplog.at_level(logging.ERROR, "edgemeta"):
        answer = page.ask("/metrics")
    assert (answer.status, answer.text) == (500, "internal error, see the service's log\n")
    assert "planted" in caplog.text
    assert page.ask("/healthz").status == 200


def test_any_request_is_answered_without_access_to_files(serve: Any) -> None:
    """Whatever method, path, headers and body: an answer, and never a fault."""
    page = serve(web={"token": TOKEN})
    page.state_with_frames(Authorization=f"Bearer {TOKEN}")
    site = page.service.parts.page._routes
    pieces = st.sampled_from(
        ["..", ".", "/", "%2e", "%2f", "frame", "front", ".jpg", "page.css", "etc/passwd", "\\", "~"]
    )
    paths = st.lists(pieces, max_size=8).map(lambda parts: "/" + "".join(parts)) | st.text(max_size=40)
    headers = st.dictionaries(st.sampled_from(["host", "cookie", "authorization", "accept"]), st.text(max_size=60))
    signed = st.just({"authorization": f"Bearer {TOKEN}"})
    methods = st.sampled_from(["GET", "HEAD", "POST"])

    @given(st.builds(Request, methods, paths, headers | signed, st.just("10.0.0.7"), st.binary(max_size=100)))
    def answered(request: Request) -> None:
        answer = site.answer(request)
        if isinstance(answer, Response):
            assert answer.status < 500 or answer.status == 503
            assert b"root:" not in answer.body
        assert head_of(answer).count(b"\r\n\r\n") == 1

    answered()
