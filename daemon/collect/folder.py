"""The pictures of one camera on disk: a folder per label, a JPEG per picture, its time in its name.

The disk is the only record, so pictures outlive the service, and others may look at them and move them. A picture is
written beside its name, synced and then renamed: whatever ends the program, there is no half picture.
"""

import contextlib
import hashlib
import json
import os
import re
import tempfile
import threading
import time
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path

from edgemeta.daemon.collect.errors import CollectError
from edgemeta.daemon.config.data_folder import give_to_owner_above, make_folder
from edgemeta.plugins.pictures import PICTURE_SUFFIXES

NOTE = "edgemeta region "
"""Begins the comment in each picture that notes its region: pictures of two regions must not be mixed."""

JPEG_START, JPEG_COMMENT = b"\xff\xd8", b"\xff\xfe"
NOTE_WITHIN = 256
"""Bytes from the start of a picture that hold the comment."""

PART = ".part"
ABANDONED_AFTER = 60.0
"""Seconds after which a partly written file counts as left by a program that was killed."""

SETTLED_NS = 100_000_000
"""A folder that changed more recently is read again: the next change may have the same time."""

Region = tuple[float, float, float, float]
"""Left, top, width and height as fractions of the frame."""

LONGEST = 60
"""Most characters; in UTF-8 at most 240 bytes, and a file system takes 255."""
FORBIDDEN = '/\\:*?"<>|'
"""Separators of paths, and what a memory card's file system does not take."""
RULE = f"1 to {LONGEST} printable characters other than {' '.join(FORBIDDEN)}, without a dot at either end"


@dataclass(frozen=True)
class Picture:
    """One picture; size in bytes."""

    label: str
    name: str
    size: int

    @property
    def id(self) -> str:
        """A name without any path in it, the same after a restart: 16 hexadecimal digits."""
        return hashlib.sha256(f"{self.label}/{self.name}".encode()).hexdigest()[:16]


@dataclass(frozen=True)
class _Listing:
    """A label's pictures as they were read. changed_ns: time of the folder's last change then; read_ns: wall clock."""

    changed_ns: int
    read_ns: int
    pictures: tuple[Picture, ...]

    @cached_property
    def by_id(self) -> dict[str, Picture]:
        """The pictures by their ids, made at most once: ten thousand take 15 ms."""
        return {picture.id: picture for picture in self.pictures}


class PictureFolder:
    """The labels and pictures in a folder. Any thread may use it; other programs may, too.

    region: that of the frames that are added. Every method raises CollectError where the disk refuses.
    """

    def __init__(self, folder: Path, region: Region) -> None:
        self.folder = folder
        self._region = region
        self._listings: dict[str, _Listing] = {}
        self._lock = threading.RLock()

    def labels(self) -> list[str]:
        """Return the labels, sorted: every folder, also an empty one, unless its name starts with a dot."""
        with _reasons(self.folder):
            try:
                with os.scandir(self.folder) as entries:
                    return sorted(e.name for e in entries if e.name[0] != "." and e.is_dir(follow_symlinks=False))
            except FileNotFoundError:
                return []

    def pictures(self, label: str) -> tuple[Picture, ...]:
        """Return a label's pictures, oldest first; none for an unknown label."""
        return self._listing(label).pictures

    def _listing(self, label: str) -> _Listing:
        nothing = _Listing(0, 0, ())
        if label not in self.labels():
            return nothing
        folder = self.folder / label
        with self._lock, _reasons(folder):
            try:
                changed_ns, known = folder.stat().st_mtime_ns, self._listings.get(label)
                if known and known.changed_ns == changed_ns and known.read_ns - changed_ns > SETTLED_NS:
                    return known
                read_ns = time.time_ns()
                with os.scandir(folder) as entries:
                    found = [Picture(label, e.name, e.stat().st_size) for e in entries if _is_picture(e)]
            except FileNotFoundError:
                return nothing
            pictures = tuple(sorted(found, key=lambda picture: picture.name))
            self._listings[label] = _Listing(changed_ns, read_ns, pictures)
            return self._listings[label]

    def all(self) -> Mapping[str, tuple[Picture, ...]]:
        """Return the pictures of every label."""
        return {label: self.pictures(label) for label in self.labels()}

    def find(self, ids: Collection[str]) -> list[Picture]:
        """Return the pictures with these ids, those that still exist."""
        listings = [self._listing(label).by_id for label in self.labels()]
        return [by_id[each] for each in dict.fromkeys(ids) for by_id in listings if each in by_id]

    def prepare(self, label: str) -> str:
        """Return the label as its folder is named, after checking that pictures may be added under it.

        Raises CollectError for an invalid label, and if the pictures here are of another region.
        """
        name = checked_label(label, self.labels())
        with _reasons(self.folder):
            make_folder(self.folder)
            self._check_region()
            self._tidy(self.folder / name)
        return name

    def add(self, label: str, camera: str, when: datetime, jpeg: bytes) -> Path:
        """Write one picture and return its file. when: UTC; a millisecond more for each picture of the same name."""
        folder = self.folder / label
        with self._lock, _reasons(folder):
            make_folder(folder)
            while (target := folder / f"{_stamp(when)}-{camera}.jpg").exists():
                when += timedelta(milliseconds=1)
            try:
                _write(target, noted(jpeg, self._region))
            except OSError:
                _remove_if_empty(folder)
                raise
        return target

    def read(self, picture: Picture) -> bytes:
        """Return a picture's file."""
        path = self.folder / picture.label / picture.name
        with _reasons(path):
            return path.read_bytes()

    def discard(self, pictures: Collection[Picture]) -> int:
        """Delete pictures, and folders that are then empty; return how many there were."""
        with self._lock, _reasons(self.folder):
            for picture in pictures:
                (self.folder / picture.label / picture.name).unlink(missing_ok=True)
            for label in {picture.label for picture in pictures}:
                _remove_if_empty(self.folder / label)
        return len(pictures)

    def rename(self, label: str, new: str) -> str:
        """Give a label another name; return it. Raises CollectError for an unknown label, and for one that exists."""
        labels = self.labels()
        if label not in labels:
            raise CollectError(f"there is no label {label!r}")
        name = checked_label(new, [each for each in labels if each != label])
        if name in labels:
            raise CollectError(f"the label {name!r} exists already")
        with self._lock, _reasons(self.folder / label):
            (self.folder / label).rename(self.folder / name)
        return name

    def _check_region(self) -> None:
        """Raise CollectError if the newest picture is of another region. One that was not collected here has none."""
        newest = max((found[-1] for found in self.all().values() if found), key=lambda each: each.name, default=None)
        if newest is None:
            return
        with (self.folder / newest.label / newest.name).open("rb") as file:
            region = region_in(file.read(NOTE_WITHIN))
        if region is not None and region != self._region:
            raise CollectError(
                f"the pictures in {self.folder} are of another region of the frame ({_listed(region)}; now "
                f"{_listed(self._region)}): throw them away, or choose another folder"
            )

    @staticmethod
    def _tidy(folder: Path) -> None:
        """Remove what a program that was killed left partly written."""
        for path in folder.glob(f".*{PART}"):
            with contextlib.suppress(OSError):  # another program removed it
                if time.time() - path.stat().st_mtime > ABANDONED_AFTER:
                    path.unlink()


def noted(jpeg: bytes, region: Region) -> bytes:
    """Return a JPEG with its region in a comment."""
    text = (NOTE + json.dumps(region)).encode()
    return JPEG_START + JPEG_COMMENT + (len(text) + 2).to_bytes(2, "big") + text + jpeg.removeprefix(JPEG_START)


def region_in(start: bytes) -> Region | None:
    """Return the region that is noted at the start of a picture; None where there is none."""
    found = re.match(rb"\xff\xd8\xff\xfe..edgemeta region \[([-+.0-9e, ]+)\]", start, re.DOTALL)
    if found is None:
        return None
    numbers = [float(each) for each in found[1].split(b",")]
    return (numbers[0], numbers[1], numbers[2], numbers[3]) if len(numbers) == 4 else None


def time_of(picture: Picture) -> str | None:
    """Return the time in a picture's name, as RFC 3339; None if it has none."""
    found = re.match(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)\.(\d{3})Z", picture.name)
    return "{}-{}-{}T{}:{}:{}.{}Z".format(*found.groups()) if found else None


def _listed(region: Region) -> str:
    return ", ".join(f"{each:g}" for each in region)


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):  # it is not empty, or gone
        folder.rmdir()


def _stamp(when: datetime) -> str:
    return f"{when:%Y%m%dT%H%M%S}.{when.microsecond // 1000:03d}Z"


def _is_picture(entry: "os.DirEntry[str]") -> bool:
    suffix = os.path.splitext(entry.name)[1].lower()  # noqa: PTH122 - ten thousand Path objects take a second
    return entry.name[0] != "." and suffix in PICTURE_SUFFIXES and entry.is_file(follow_symlinks=False)


def _write(target: Path, data: bytes) -> None:
    """Write a file completely or not at all. Raises OSError."""
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".", suffix=PART, delete=False) as file:
            temporary = Path(file.name)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        give_to_owner_above(temporary)
        temporary.replace(target)
    except BaseException:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _reasons(path: Path) -> Iterator[None]:
    """Turn an error of the disk into a CollectError."""
    try:
        yield
    except OSError as error:
        raise CollectError(f"{error.filename or path}: {(error.strerror or str(error)).lower()}") from error


def checked_label(text: str, existing: Iterable[str] = ()) -> str:
    """Return a label in Unicode's normal form C, without blanks at its ends. Raises CollectError.

    existing: the labels so far. One that differs from them only in upper and lower case is refused: on a file system
    that ignores case both would be one folder.
    """
    label = unicodedata.normalize("NFC", text).strip()
    if (
        not 1 <= len(label) <= LONGEST
        or not label.isprintable()
        or label[0] == "."
        or label[-1] == "."
        or any(letter in FORBIDDEN for letter in label)
    ):
        raise CollectError(f"found label {text[: LONGEST + 1]!a}, expected {RULE}")
    for other in existing:
        if other != label and other.casefold() == label.casefold():
            raise CollectError(f"found label {label!r}, which differs from {other!r} only in case: use {other!r}")
    return label
