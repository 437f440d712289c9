"""Teaches a network by a camera's pictures: `edgemeta teach` in a process of its own, one at a time.

The service does not import the toolchain, and a crash or too much memory there does not touch it.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from edgemeta.daemon.collect.errors import CollectError
from edgemeta.daemon.collect.folder import PictureFolder
from edgemeta.daemon.collect.limited_command import EDGEMETA, LimitedCommandError, Limits, run_limited
from edgemeta.daemon.config.collect import TeachConfig
from edgemeta.daemon.config.data_folder import make_folder
from edgemeta.daemon.runtime.threads import guarded_thread
from edgemeta.model.address import Address

log = logging.getLogger(__name__)

KEPT = 4
"""Newest model files of a camera that are kept."""

SUFFIX = ".safetensors"

COMMAND = (*EDGEMETA, "teach")


@dataclass(frozen=True)
class Teaching:
    """One run of `edgemeta teach`. result: what it printed as JSON; reason: why there is none."""

    camera: str
    state: Literal["running", "done", "failed"]
    started: float
    seconds: float = 0.0
    step: str = ""
    file: Path | None = None
    result: Mapping[str, Any] | None = None
    reason: str | None = None


class Teacher:
    """Runs the command for one camera at a time. Any thread may call it.

    folder: where the model files go, `CAMERA-N.safetensors`. limits: read at each start. in_use: the models that the
    running config names; their files are not deleted.
    """

    def __init__(
        self,
        folders: Mapping[str, PictureFolder],
        folder: Path,
        limits: Callable[[], TeachConfig],
        in_use: Callable[[], Collection[str]],
        on_fatal: Callable[[BaseException], None],
        command: tuple[str, ...] = COMMAND,
    ) -> None:
        self._folders = folders
        self._folder = folder
        self._limits = limits
        self._in_use = in_use
        self._on_fatal = on_fatal
        self._command = command
        self._lock = threading.Lock()
        self._cancelled = threading.Event()
        self._thread: threading.Thread | None = None
        self.last: Teaching | None = None
        """The run in progress, else the last one; None before the first."""

    @property
    def running(self) -> str | None:
        """The camera whose pictures are used just now; None while nothing runs."""
        last = self.last
        return last.camera if last is not None and last.state == "running" else None

    def start(self, camera: str) -> None:
        """Start to teach by a camera's pictures. Raises CollectError if something runs, and without two labels."""
        if camera not in self._folders:
            raise CollectError(f"found camera {camera!r}, expected one of {', '.join(self._folders)}")
        labels = [label for label, pictures in self._folders[camera].all().items() if pictures]
        with self._lock:
            if self.running is not None:
                raise CollectError(f"a network is being taught for camera {self.running} just now")
            if len(labels) < 2:
                raise CollectError(
                    f"found pictures of {len(labels)} label{'s' if len(labels) != 1 else ''}, expected at least 2: "
                    "a network is taught what tells them apart"
                )
            self._cancelled.clear()
            self.last = Teaching(camera, "running", time.monotonic())
            self._thread = guarded_thread("teacher", lambda: self._run(camera), self._on_fatal)
            self._thread.start()

    def cancel(self) -> None:
        """End the run in progress, if there is one."""
        self._cancelled.set()

    def stop(self, timeout: float) -> None:
        """End the run in progress with the service."""
        self._cancelled.set()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join(timeout)

    def _run(self, camera: str) -> None:
        assert self.last is not None
        began = self.last
        try:
            file, result = self._teach(camera, began)
            done = Teaching(camera, "done", began.started, file=file, result=result)
        except (LimitedCommandError, OSError) as error:
            done = Teaching(camera, "failed", began.started, reason=str(error))
            log.warning("camera %s: nothing was taught: %s", camera, error, extra={"camera": camera})
        self.last = Teaching(**(vars(done) | {"seconds": time.monotonic() - began.started}))

    def _teach(self, camera: str, began: Teaching) -> tuple[Path, Mapping[str, Any]]:
        """Run the command to its end. Raises LimitedCommandError and OSError."""
        limits = self._limits()
        make_folder(self._folder)
        file = self._next_file(camera)
        command = [*self._command, str(self._folders[camera].folder), "--out", str(file), "--name", file.stem, "--json"]
        command += ["--backbone", limits.backbone] if limits.backbone is not None else []

        def tell(step: str) -> None:
            self.last = Teaching(camera, "running", began.started, time.monotonic() - began.started, step)

        keys = Limits(limits.timeout, "`teach.timeout`", limits.max_memory_mb, "`teach.max_memory_mb`")
        result = run_limited(command, keys, self._cancelled, tell)
        if not file.is_file():
            raise LimitedCommandError("the command wrote no model file")
        return file, result

    def _next_file(self, camera: str) -> Path:
        """Return the name of the next model file; deletes old ones."""
        files = sorted(self._folder.glob(f"{camera}-[0-9]*{SUFFIX}"), key=_number)
        used = {Address.parse(each).place for each in self._in_use()}
        for old in files[: max(0, len(files) - KEPT + 1)]:
            if str(old) not in used:
                with contextlib.suppress(OSError):  # it stays
                    old.unlink()
        return self._folder / f"{camera}-{_number(files[-1]) + 1 if files else 1}{SUFFIX}"


def _number(file: Path) -> int:
    digits = file.name.removesuffix(SUFFIX).rpartition("-")[2]
    return int(digits) if digits.isdecimal() else 0
