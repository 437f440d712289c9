"""The routes of the panel for collecting and teaching: its state, its pictures, its buttons.

All need the token. A button's request must come from this page: a cookie alone is not enough. Labels and pictures are
looked up in what the disk holds; no text of a request becomes a path.
"""

import hashlib
import re
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from edgemeta.daemon.collect.collection import CollectionService
from edgemeta.daemon.collect.errors import CollectError
from edgemeta.daemon.collect.folder import PictureFolder, time_of
from edgemeta.daemon.collect.teacher import Teaching
from edgemeta.daemon.collect.thumbnail import thumbnail
from edgemeta.daemon.config.error_text import expected, shown
from edgemeta.daemon.messages.collection import (
    CameraCollection,
    CollectionState,
    ConfusingPicture,
    DiscardRequest,
    HoldRequest,
    LabelPage,
    PanelRequest,
    PicturePage,
    PictureRow,
    RenameRequest,
    TeachingPage,
    UsePage,
)
from edgemeta.daemon.web.access import Access
from edgemeta.daemon.web.request import Request
from edgemeta.daemon.web.response import JSON, Deferred, Response, sentence

PER_PAGE = 24
"""Pictures of one page."""

MOST_CONFUSING = 24
"""Most confusing pictures that are shown."""

STATE = "/api/collection"
PICTURES = re.compile(r"/api/pictures/([A-Za-z0-9_-]{1,64})/([0-9a-f]{16})/([0-9]{1,6})")
PICTURE = re.compile(r"/picture/([A-Za-z0-9_-]{1,64})/([0-9a-f]{16})\.jpg")

AnyRequest = TypeVar("AnyRequest", bound=PanelRequest)


class Panel:
    """Answers the panel's requests. collection: None where it is not offered, for the reason `unavailable`."""

    def __init__(
        self, access: Access, collection: CollectionService | None, unavailable: str | None, device: str
    ) -> None:
        self._device = device
        self._access = access
        self._collection = collection
        self._unavailable = unavailable
        self.actions: dict[str, Callable[[CollectionService, Request], None]] = {
            "/api/collect": _hold,
            "/api/discard": _discard,
            "/api/rename": _rename,
            "/api/teach": _teach,
            "/api/cancel": _cancel,
            "/api/use": _use,
        }

    def read(self, path: str) -> Response | Deferred | None:
        """Answer a request to read, after its access was checked; None for another path."""
        if path == STATE:
            return Deferred(
                lambda: _json(
                    _state(self._collection) if self._collection else _unavailable(self._device, self._unavailable)
                )
            )
        if (page := PICTURES.fullmatch(path)) is not None:
            camera, key, number = page.groups()
            return self._deferred(lambda collection: _pictures(collection, camera, key, int(number)))
        if (picture := PICTURE.fullmatch(path)) is not None:
            camera, name = picture.groups()
            return self._deferred(lambda collection: _thumbnail(collection, camera, name))
        return None

    def act(self, request: Request) -> Response | Deferred:
        """Answer a button's request."""
        refusal = self._access.refusal(request) or self._access.refusal_of_action(request)
        if refusal is not None:
            return refusal
        action = self.actions[request.path]

        def answer(collection: CollectionService) -> Response:
            action(collection, request)
            return _json(_state(collection))

        return self._deferred(answer)

    def _deferred(self, answer: Callable[[CollectionService], Response]) -> Response | Deferred:
        collection = self._collection
        if collection is None:
            return sentence(HTTPStatus.FORBIDDEN, self._unavailable or "not offered here")

        def made() -> Response:
            try:
                return answer(collection)
            except CollectError as error:
                return sentence(HTTPStatus.CONFLICT, str(error))

        return Deferred(made)


def key_of(label: str) -> str:
    """Return a label's place in an address: 16 hexadecimal digits."""
    return hashlib.sha256(label.encode()).hexdigest()[:16]


def _hold(collection: CollectionService, request: Request) -> None:
    wanted = _read(HoldRequest, request)
    if wanted.hold:
        collection.collector.hold(wanted.camera, wanted.label, wanted.first)
    else:
        collection.collector.release(wanted.camera, wanted.label)


def _discard(collection: CollectionService, request: Request) -> None:
    wanted = _read(DiscardRequest, request)
    folder = _folder(collection, wanted.camera)
    _require_no_teaching(collection, wanted.camera)
    folder.discard(folder.find(wanted.pictures))


def _rename(collection: CollectionService, request: Request) -> None:
    wanted = _read(RenameRequest, request)
    folder = _folder(collection, wanted.camera)
    _require_no_teaching(collection, wanted.camera)
    if collection.collector.is_collecting(wanted.camera):
        raise CollectError(f"camera {wanted.camera} is collecting just now")
    folder.rename(wanted.label, wanted.name)


def _teach(collection: CollectionService, request: Request) -> None:
    collection.teacher.start(_read(PanelRequest, request).camera)


def _cancel(collection: CollectionService, request: Request) -> None:
    _read(PanelRequest, request)
    collection.teacher.cancel()


def _use(collection: CollectionService, request: Request) -> None:
    camera = _read(PanelRequest, request).camera
    taught = collection.teacher.last
    if taught is None or taught.camera != camera or taught.file is None:
        raise CollectError(f"no network was taught for camera {camera} since the service started")
    if collection.last_use is not None and collection.last_use.state == "running":
        raise CollectError("a model is being tried on live frames just now")
    collection.use(camera, taught.file)


def _require_no_teaching(collection: CollectionService, camera: str) -> None:
    if collection.teacher.running == camera:
        raise CollectError("a network is being taught by these pictures: wait for its end, or cancel it")


def _folder(collection: CollectionService, camera: str) -> PictureFolder:
    folder = collection.collector.folders.get(camera)
    if folder is None:
        raise CollectError(f"unknown camera {camera}")
    return folder


def _pictures(collection: CollectionService, camera: str, key: str, number: int) -> Response:
    folder = _folder(collection, camera)
    label = next((label for label in folder.labels() if key_of(label) == key), None)
    if label is None:
        return sentence(HTTPStatus.NOT_FOUND, "the label is gone")
    pictures = folder.pictures(label)[::-1]
    pages = max(1, -(-len(pictures) // PER_PAGE))
    page = min(max(1, number), pages)
    shown_here = pictures[(page - 1) * PER_PAGE : page * PER_PAGE]
    rows = [PictureRow(id=picture.id, captured=time_of(picture)) for picture in shown_here]
    return _json(PicturePage(label=label, page=page, pages=pages, pictures=rows))


def _thumbnail(collection: CollectionService, camera: str, name: str) -> Response:
    folder = _folder(collection, camera)
    found = folder.find([name])
    if not found:
        return sentence(HTTPStatus.NOT_FOUND, "the picture is gone")
    return Response(HTTPStatus.OK, "image/jpeg", thumbnail(folder.read(found[0])))


def _unavailable(device: str, reason: str | None) -> CollectionState:
    nothing = {"max_pictures": 0, "max_mb": 0, "pictures": 0, "bytes": 0, "cameras": {}, "teaching": None, "use": None}
    return CollectionState.model_validate({"unavailable": reason, "device": device, "folder": ""} | nothing)


def _state(collection: CollectionService) -> CollectionState:
    collector, limits, use = collection.collector, collection.limits(), collection.last_use
    try:
        pictures, size = collector.usage()
    except CollectError as error:
        return _unavailable(collection.device, str(error))
    taught = collection.teacher.last
    return CollectionState(
        unavailable=None,
        device=collection.device,
        folder=str(collection.folder),
        max_pictures=limits.max_pictures,
        max_mb=limits.max_mb,
        pictures=pictures,
        bytes=size,
        cameras={name: _camera(collection, name, folder) for name, folder in collector.folders.items()},
        teaching=None if taught is None else _teaching(taught, collector.folders[taught.camera]),
        use=None
        if use is None
        else UsePage(camera=use.camera, state=use.state, model=use.file.name, message=use.message, line=use.line),
    )


def _camera(collection: CollectionService, name: str, folder: PictureFolder) -> CameraCollection:
    collecting = collection.collector.is_collecting(name)  # before the pictures: once it is over, they are complete
    hold = collection.collector.state(name)
    return CameraCollection(
        labels=[
            LabelPage(label=label, key=key_of(label), pictures=len(found)) for label, found in folder.all().items()
        ],
        collecting=hold.label if hold is not None and collecting else None,
        kept=hold.kept if hold is not None else 0,
        waiting=hold.waiting if hold is not None else 0,
        skipped=hold.skipped if hold is not None else 0,
        problem=hold.problem if hold is not None else None,
    )


def _teaching(taught: Teaching, folder: PictureFolder) -> TeachingPage:
    result = taught.result or {}
    return TeachingPage(
        camera=taught.camera,
        state=taught.state,
        seconds=round(taught.seconds, 1),
        step=taught.step,
        reason=taught.reason,
        model=taught.file.name if taught.file is not None else None,
        accuracy=_number(result.get("accuracy")),
        interval=_pair(result.get("accuracy_interval")),
        pictures=result.get("pictures") if isinstance(result.get("pictures"), int) else None,
        warnings=[str(each) for each in _list(result.get("warnings"))],
        confusing=[each for each in (_confusing(row, folder) for row in _list(result.get("confusing"))) if each],
    )


def _confusing(row: Any, folder: PictureFolder) -> ConfusingPicture | None:
    """Return a row of the command's list; None where it is of no picture here."""
    if not isinstance(row, dict):
        return None
    file, taken_for = Path(str(row.get("picture"))), row.get("taken_for")
    found = next((each for each in folder.pictures(file.parent.name) if each.name == file.name), None)
    if found is None:
        return None
    return ConfusingPicture(id=found.id, label=found.label, taken_for=None if taken_for is None else str(taken_for))


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _pair(value: object) -> tuple[float, float] | None:
    low, high = map(_number, value) if isinstance(value, list) and len(value) == 2 else (None, None)
    return None if low is None or high is None else (low, high)


def _list(value: object) -> list[Any]:
    return value[:MOST_CONFUSING] if isinstance(value, list) else []


def _json(record: CollectionState | PicturePage) -> Response:
    return Response(HTTPStatus.OK, JSON, record.model_dump_json().encode())


def _read(kind: type[AnyRequest], request: Request) -> AnyRequest:
    """Parse a button's request. Raises CollectError with its first mistake."""
    try:
        return kind.model_validate_json(request.body)
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        place = ".".join(str(step) for step in detail["loc"])[:80] or "the request"
        raise CollectError(f"{place}: found {shown(detail['input'])}, expected {expected(detail)}") from None
