"""Routes: from a request to its answer. No sockets here, and nothing that blocks.

The page's own files are read by name at the start, so no path of a request is used on the disk. They are public, and so
is the one word of `/healthz`, which programs ask for that decide about restarts; all data of the device needs `Access`.
"""

import re
from collections.abc import Callable
from http import HTTPStatus
from importlib import resources

from edgemeta.daemon.metrics.prometheus import exposition
from edgemeta.daemon.web.access import WRONG_TOKEN_DELAY, Access
from edgemeta.daemon.web.jpeg import JpegEncoder
from edgemeta.daemon.web.panel import Panel
from edgemeta.daemon.web.request import Request
from edgemeta.daemon.web.response import JSON, Answer, Response, Stream, sentence
from edgemeta.daemon.web.state import Observer, ServiceView

EVENT_INTERVAL = 0.25
"""Seconds between two events."""

SCRIPTS = (
    *("page.js", "camera.js", "reading.js", "overlay.js", "chart.js", "health.js", "format.js"),
    *("panel.js", "pictures.js"),
)
FILES = {
    "page.css": "text/css; charset=utf-8",
    **dict.fromkeys(SCRIPTS, "text/javascript; charset=utf-8"),
    "icon.svg": "image/svg+xml",
}
"""The page's own files, and their types."""

HEALTH = "/healthz"
"""Its answer is public."""

HTML = "text/html; charset=utf-8"


class Routes:
    """Answers requests from the service's state."""

    def __init__(
        self, access: Access, service: ServiceView, observer: Observer, frames: JpegEncoder, panel: Panel
    ) -> None:
        self._access = access
        self._service = service
        self._observer = observer
        self._frames = frames
        self._panel = panel
        folder = resources.files("edgemeta.daemon.web") / "page"
        self._files = {f"/{name}": (kind, (folder / name).read_bytes()) for name, kind in FILES.items()}
        self._page, self._sign_in_page = ((folder / name).read_bytes() for name in ("index.html", "sign-in.html"))
        self._answers: dict[str, Callable[[], Answer]] = {
            "/": lambda: Response(HTTPStatus.OK, HTML, self._page),
            "/api/state": self._state,
            "/api/events": lambda: Stream(self._event, 0, EVENT_INTERVAL),
            HEALTH: self._health,
            "/readyz": self._readiness,
            "/metrics": self._metrics,
        }

    def answer(self, request: Request) -> Answer:
        """Answer a request."""
        if request.path == "/sign-in" and request.method == "POST":
            return self._access.sign_in(request) or self._sign_in(wrong=True)
        if request.path in self._panel.actions and request.method == "POST":
            return self._panel.act(request)
        if request.method not in ("GET", "HEAD"):
            return sentence(HTTPStatus.METHOD_NOT_ALLOWED, f"{request.method} is not supported", {"Allow": "GET"})
        if request.path in self._files:
            kind, content = self._files[request.path]
            return Response(HTTPStatus.OK, kind, content)
        refusal = None if request.path == HEALTH else self._access.refusal(request)
        if refusal is not None:
            show_form = request.path == "/" and refusal.status is HTTPStatus.UNAUTHORIZED
            return self._sign_in() if show_form else refusal
        if request.path in self._answers:
            return self._answers[request.path]()
        return self._panel.read(request.path) or self._frame(request.path)

    def _sign_in(self, wrong: bool = False) -> Response:
        page = self._sign_in_page.replace(b'data-wrong="no"', b'data-wrong="yes"') if wrong else self._sign_in_page
        return Response(HTTPStatus.UNAUTHORIZED, HTML, page, delay=WRONG_TOKEN_DELAY if wrong else 0.0)

    def _frame(self, path: str) -> Response:
        name = re.fullmatch(r"/frame/([A-Za-z0-9_-]{1,64})\.(jpg|json)", path)
        if name is None:
            return sentence(HTTPStatus.NOT_FOUND, "not found")
        if name[1] not in self._frames.cameras:
            return sentence(HTTPStatus.NOT_FOUND, f"unknown camera {name[1]}")
        picture = self._frames.picture(name[1])
        if picture is None:
            return sentence(HTTPStatus.NOT_FOUND, f"no frame of camera {name[1]} yet, or frames are not shown")
        if name[2] == "jpg":
            return Response(HTTPStatus.OK, "image/jpeg", picture.jpeg)
        return Response(HTTPStatus.OK, JSON, picture.record.model_dump_json().encode())

    def _state(self) -> Response:
        state, _ = self._observer.observe()
        return Response(HTTPStatus.OK, JSON, state.model_dump_json().encode())

    def _event(self, cursor: int) -> tuple[bytes, int]:
        state, cursor = self._observer.observe(cursor)
        return b"data: " + state.model_dump_json().encode() + b"\n\n", cursor

    def _metrics(self) -> Response:
        text, kind = exposition(self._service.snapshot())
        return Response(HTTPStatus.OK, kind, text)

    def _health(self) -> Response:
        """Alive while no thread hangs, as for systemd's watchdog; which one hangs is said by `/readyz`."""
        if self._service.health().hanging_threads:
            return sentence(HTTPStatus.SERVICE_UNAVAILABLE, "hangs")
        return sentence(HTTPStatus.OK, "alive")

    def _readiness(self) -> Response:
        """Ready while every camera delivers frames or has ended, and the broker is connected."""
        health = self._service.health()
        cameras = [f"camera {name} {description}" for name, description in health.cameras.items()]
        lines = ["ready" if health.ready else "not ready", *health.hanging_threads, *cameras, f"broker {health.broker}"]
        lines += [f"overloaded: {health.overloaded}"] if health.overloaded else []
        lines += [f"model refused, another one is in use: {health.refused}"] if health.refused else []
        return sentence(HTTPStatus.OK if health.ready else HTTPStatus.SERVICE_UNAVAILABLE, "\n".join(lines))
