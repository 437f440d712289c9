"""The folder in which the service keeps its files: outbox, copies of the last good models, collected pictures."""

import errno
import os
from pathlib import Path


def data_folder(configured: str | None) -> Path:
    """Return the configured folder, else the first of the defaults that is set.

    systemd sets STATE_DIRECTORY for a unit with StateDirectory=; elsewhere the XDG base directories decide.
    """
    if configured is not None:
        return Path(configured)
    if state := os.environ.get("STATE_DIRECTORY", "").partition(":")[0]:
        return Path(state)
    xdg = os.environ.get("XDG_STATE_HOME", "")
    return (Path(xdg) if xdg.startswith("/") else _home() / ".local" / "state") / "edgemeta"


def make_folder(folder: Path) -> None:
    """Create a folder, for its owner only whatever the umask, with those above it.

    The administrator's belong to whom the folder above belongs: the service, which has another user, may then use them.
    Raises OSError.
    """
    if folder.is_dir():
        return
    make_folder(folder.parent)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if folder.is_dir():  # another thread was faster
            return
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from None
    give_to_owner_above(folder)


def give_to_owner_above(path: Path) -> None:
    """Let what the administrator has made belong to whom the folder above belongs. Raises OSError."""
    if os.geteuid() == 0:
        above = path.parent.stat()
        os.chown(path, above.st_uid, above.st_gid)


def _home() -> Path:
    """Return the home folder; for a user without one a folder that cannot be written, which the outbox then reports."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")
