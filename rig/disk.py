"""A small tmpfs that can be filled or made read-only."""

import subprocess
from pathlib import Path

from rig.namespaces import enter
from rig.waiting import RigError

MEGABYTES = 8


class MountError(RigError):
    """No file system can be mounted here: that needs root, and a container that allows it."""


def in_own_namespace() -> bool:
    """Move this program into a mount namespace; False if the system does not allow it."""
    return enter("mount", "mount", "-t", "tmpfs", "none", "/mnt")


class SmallDisk:
    """A mounted folder of a few megabytes, until `close`; in a separate mount namespace it ends with the program."""

    def __init__(self, folder: Path) -> None:
        """Mount it. Raises MountError."""
        self._folder = folder
        self._filler = folder / "filler"
        self._mount("-t", "tmpfs", "-o", f"size={MEGABYTES}m", "edgemeta-rig", str(folder))

    def fill(self) -> None:
        """Fill all free space; a further call also fills what was freed since."""
        with self._filler.open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                return

    def empty(self) -> None:
        """Free the space again."""
        self._filler.unlink()

    def protect(self) -> None:
        """Make it read-only; no file may be open for writing."""
        self._mount("-o", "remount,ro", str(self._folder))

    def release(self) -> None:
        """Make it writable again."""
        self._mount("-o", "remount,rw", str(self._folder))

    def close(self) -> None:
        """Unmount it, with its contents."""
        subprocess.run(["umount", "--lazy", str(self._folder)], check=True)

    @staticmethod
    def _mount(*description: str) -> None:
        done = subprocess.run(["mount", *description], capture_output=True, text=True, check=False)
        if done.returncode:
            raise MountError(f"mount {' '.join(description)}: {done.stderr.strip()}")
