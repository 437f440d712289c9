"""Watches the config file and the model files it names, and says when they have changed and are whole again.

Files are looked at once a second through whatever links lead to them, so an editor that writes a new file and renames
it, a link that is turned to another target, and a file that is written in place are all the same: something else lies
at the path. It counts once it has not changed from one look to the next; what is half written by then fails its checks,
and is looked at again when it goes on changing.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from edgemeta.daemon.config.config import resolved
from edgemeta.daemon.config.loader import ConfigError, ConfigFile
from edgemeta.daemon.runtime.periodic import Periodic
from edgemeta.model.address import Address
from edgemeta.model.errors import ModelError
from edgemeta.model.signature import signature_of
from edgemeta.model.zoo import find

LOOKS_EVERY = 1.0
"""Seconds between two looks."""

Marks: TypeAlias = dict[Path, tuple[int, int, int, int] | None]
"""What lies at each path: device, inode, size and time of change in ns; None for nothing."""


class FileWatcher:
    """Calls `changed` after the config file, or a file it names, has become another one. Looks in its own thread."""

    def __init__(self, config: Path, changed: Callable[[], None], on_fatal: Callable[[BaseException], None]) -> None:
        self._config = config
        self._changed = changed
        self._files = _Named(config)
        self._known = self._seen = self._look_at_files()
        self._periodic = Periodic("watch", LOOKS_EVERY, self.look, on_fatal)

    def start(self) -> None:
        """Begin to look."""
        self._periodic.start()

    def stop(self, timeout: float) -> None:
        """Look no more."""
        self._periodic.stop(timeout)

    def mark_current(self) -> None:
        """Take the files as they are now for known, because somebody reads them anyway."""
        self._known = self._look_at_files()

    def look(self) -> None:
        """Look once; say so where what was new at the last look is still the same, and there."""
        before, self._seen = self._seen, self._look_at_files()
        is_whole = self._seen == before and self._seen[self._config] is not None
        if is_whole and self._seen != self._known:
            self._known = self._seen
            if self._files.wanted:
                self._changed()

    def _look_at_files(self) -> Marks:
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
                config, _ = ConfigFile(self._config).validate()
            except ConfigError:
                config = None
            if config is not None:
                config = resolved(config, self._config.parent)
                self.wanted = config.swap.watch
                models = [self._file_of(config.model_of(camera)) for camera in config.cameras]
                signatures = [signature_of(model) for model in models] if config.trust.keys else []
                self._files = [*models, *signatures]
        return self._files

    def _file_of(self, model: str) -> Path:
        try:
            place = Address.parse(model).place
        except ModelError:  # no digest: the config is told so, and wants to be changed
            place = model
        try:
            return find(place)
        except ModelError:  # not there yet, perhaps
            return self._config.parent / place


def _mark(file: Path) -> tuple[int, int, int, int] | None:
    try:
        found = file.stat()
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
