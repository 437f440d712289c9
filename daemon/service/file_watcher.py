"""Watches the config file and the model files it names, and reports when they have changed and are complete.

Files are checked once a second through all links, so an editor that renames a new file over the old one, a link that
gets another target, and a file written in place are detected alike. A change is reported once the file is the same at
two checks in a row. A file that is still incomplete then fails validation, and is reported again when it changes.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from edgemeta.daemon.config.config import Config, resolved
from edgemeta.daemon.config.error_text import reason_of
from edgemeta.daemon.config.loader import ConfigFile
from edgemeta.daemon.runtime.periodic import Periodic
from edgemeta.model.address import Address
from edgemeta.model.errors import ModelError
from edgemeta.model.signature import signature_of
from edgemeta.model.zoo import find

log = logging.getLogger(__name__)

CHECKS_EVERY = 1.0
"""Seconds between two checks."""

Marks: TypeAlias = dict[Path, tuple[int, int, int, int] | None]
"""For each path: device, inode, size and modification time in ns; None where there is no file."""


class FileWatcher:
    """Calls `changed` after the config file, or a file it names, has changed. Checks in its own thread."""

    def __init__(self, config: Path, changed: Callable[[], None], on_fatal: Callable[[BaseException], None]) -> None:
        self._config = config
        self._changed = changed
        self._files = _Named(config)
        self._known = self._seen = self._marks_of_files()
        self._periodic = Periodic("watch", CHECKS_EVERY, self.check, on_fatal)

    def start(self) -> None:
        """Start to check."""
        self._periodic.start()

    def stop(self, timeout: float) -> None:
        """Stop."""
        self._periodic.stop(timeout)

    def mark_current(self) -> None:
        """Take the present files as known, because they are being read anyway."""
        self._known = self._marks_of_files()

    def mark_written(self, file: Path) -> None:
        """Take one file, which the service has written, as known."""
        if file in self._known:
            self._known = self._known | {file: _mark(file)}

    def check(self) -> None:
        """Check once; call `changed` where a change seen at the last check is still the same, and the file exists."""
        before, self._seen = self._seen, self._marks_of_files()
        is_complete = self._seen == before and self._seen[self._config] is not None
        if is_complete and self._seen != self._known:
            self._known = self._seen
            if self._files.wanted:
                self._changed()

    def _marks_of_files(self) -> Marks:
        mark = _mark(self._config)
        return {self._config: mark} | {file: _mark(file) for file in self._files.of(mark)}


class _Named:
    """The files that a config names, read again only when the config has changed."""

    def __init__(self, config: Path) -> None:
        self._config = config
        self._mark: object = ()
        self._files: list[Path] = []
        self.wanted = True

    def of(self, mark: object) -> list[Path]:
        """Return the files as the config, which has this mark, names them; as before where it is no config."""
        if mark != self._mark:
            self._mark = mark
            try:
                self._read()
            except Exception as error:  # noqa: BLE001 - the reload, which reads the same file, says why
                log.debug("the files that %s names are not known: %s", self._config, reason_of(error))
        return self._files

    def _read(self) -> None:
        config, _ = ConfigFile(self._config, Config).validate()
        if config is not None:
            config = resolved(config, self._config.parent)
            self.wanted = config.watch_files
            models = [self._file_of(model) for model in dict.fromkeys(map(config.model_of, config.cameras))]
            signatures = [signature_of(model) for model in models] if config.trust.public_key_files else []
            self._files = [*models, *signatures]

    def _file_of(self, model: str) -> Path:
        try:
            place = Address.parse(model).place
        except ModelError:  # an invalid digest: the next reload reports it
            place = model
        try:
            return find(place)
        except ModelError:  # it may not exist yet
            return self._config.parent / place


def _mark(file: Path) -> tuple[int, int, int, int] | None:
    try:
        found = file.stat()
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
