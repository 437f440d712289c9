"""A small disk of one's own, which may be full or read-only: a tmpfs."""

import subprocess
from pathlib import Path

from rig.namespaces import enter
from rig.patience import RigError

MEGABYTES = 8


class MountError(RigError):
    """No file system can be mounted here: that needs root and a container that allows it."""


def in_own_namespace() -> bool:
    """Give this program a mount namespace; False where the system does not allow that."""
    return enter("mount", "mount", "-t", "tmpfs", "none", "/mnt")


class SmallDisk:
    """A mounted folder of a few megabytes, until `close`; in a mount namespace of its own it ends with the program."""

    def __init__(self, folder: Path) -> None:
        """Raises MountError."""
        self._folder = folder
        self._filler = folder / "filler"
        self._mount("-t", "tmpfs", "-o", f"size={MEGABYTES}m", "edgemeta-rig", str(folder))

    def fill(self) -> None:
        """Leave no byte free; what became free since the last time is taken, too."""
        with self._filler.open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                return

    def empty(self) -> None:
        """Make room again."""
        self._filler.unlink()

    def protect(self) -> None:
        """Take no more writing, while no file is open for it."""
        self._mount("-o", "remount,ro", str(self._folder))

    def release(self) -> None:
        """Take writing again."""
        self._mount("-o", "remount,rw", str(self._folder))

    def close(self) -> None:
        """Be gone, with all that is in it."""
        subprocess.run(["umount", "--lazy", str(self._folder)], check=True)

    @staticmethod
    def _mount(*description: str) -> None:
        done = subprocess.run(["mount", *description], capture_output=True, text=True, check=False)
        if done.returncode:
            raise MountError(f"mount {' '.join(description)}: {done.stderr.strip()}")
