"""A service in this process with its page, and an HTTP client."""

import http.client
import json
import logging
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from edgemeta.daemon.metrics import load
from edgemeta.daemon.runtime.deadline import Deadline
from edgemeta.daemon.service.plan import prepare
from edgemeta.daemon.service.service import Service
from rig.browser import Browser, chromium, missing

DEADLINE = 60.0
TOKEN = "0123456789abcdef-test"


class Labels:
    """As much of a pipeline's step as the page's memory looks at."""

    def __init__(self, label: str, score: float, state: str | None) -> None:
        self.frame: Any = self
        self.best = {"label": label, "score": score}
        self.state, self.sequence, self.objects = state, 1, None


@dataclass(frozen=True)
class Answered:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Page:
    """The page of a service that runs in this process."""

    service: Service
    port: int
    crashes: list[BaseException] = field(default_factory=list)

    def ask(self, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Answered:
        """Send one request and return the answer; header names with `_` for `-`."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, named)
            answer = connection.getresponse()
            return Answered(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def wait(self, path: str, condition: Callable[[Answered], bool], **headers: str) -> Answered:
        """Ask again and again until something is true of the answer."""
        deadline = time.monotonic() + DEADLINE
        while not condition(answer := self.ask(path, **headers)):
            assert time.monotonic() < deadline, f"waited for {path}, it still says {answer.text[:500]}"
            time.sleep(0.01)
        return answer

    def state_with_frames(self, **headers: str) -> Any:
        """The state, once every camera has a classified frame."""

        def complete(answer: Answered) -> bool:
            return all(camera["frame"] for camera in answer.json["cameras"].values())

        return self.wait("/api/state", complete, **headers).json


@pytest.fixture
def serve(
    write_config: Callable[..., Path],
    free_port: Callable[[], int],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., Page]]:
    """Starts services with a page on a free port; without a broker unless `mqtt` names one.

    They are never overloaded: on a busy machine the page would say that, too.
    """
    monkeypatch.setattr(load, "BEGINS", load.WINDOW + 1)
    pages: list[Page] = []

    def start(web: dict[str, Any] | None = None, **keys: Any) -> Page:
        keys = {"mqtt": {"host": "127.0.0.1", "port": free_port()}} | keys
        crashes: list[BaseException] = []
        service = Service(prepare(write_config(web={"enabled": True, "port": 0} | (web or {}), **keys)), crashes.append)
        page = Page(service, 0, crashes)
        pages.append(page)
        with caplog.at_level(logging.INFO, "edgemeta"):
            service.start()
            page.port = port_of(caplog)
        return page

    yield start
    for page in pages:
        page.service.stop(Deadline(5.0))
        assert page.crashes == []


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if reason := missing():
        pytest.skip(reason)
    with chromium() as started:
        yield started


@pytest.fixture
def look(browser: Browser) -> Callable[..., Browser]:
    """Opens a page, light and 1280x900 unless told otherwise."""

    def open_(page: Page | int, width: int = 1280, theme: str = "light") -> Browser:
        port = page if isinstance(page, int) else page.port
        browser.size(width, 900)
        browser.theme(theme)
        browser.driver.get("about:blank")
        browser.driver.delete_all_cookies()
        browser.log()
        browser.driver.get(f"http://127.0.0.1:{port}/")
        return browser

    return open_


def port_of(caplog: pytest.LogCaptureFixture) -> int:
    """The port that the page told last."""
    deadline = time.monotonic() + DEADLINE
    while not (reported := re.findall(r"page at http://\S+:([0-9]+)/", caplog.text)):
        assert time.monotonic() < deadline, caplog.text
        time.sleep(0.01)
    return int(reported[-1])
