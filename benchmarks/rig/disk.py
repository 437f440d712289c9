"""A small disk of one's own, which may be full or read-only: a tmpfs in this process' own mount namespace."""

import subprocess
from pathlib import Path

from rig.namespaces import enter

MEGABYTES = 8


def in_own_namespace() -> bool:
    """Give this program a mount namespace; False where the system does not allow that."""
    return enter("mount", "mount", "-t", "tmpfs", "none", "/mnt")


class SmallDisk:
    """A mounted folder of a few megabytes. Only in a mount namespace of one's own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._filler = folder / "filler"
        self._mount("-t", "tmpfs", "-o", f"size={MEGABYTES}m", "edgemeta-rig", str(folder))

    def fill(self) -> None:
        """Leave no byte free."""
        with self._filler.open("wb", buffering=0) as file:
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
    def _mount(*words: str) -> None:
        subprocess.run(["mount", *words], check=True)
