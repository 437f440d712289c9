"""A network of one's own whose packets can be dropped: two network namespaces and the cable between them.

What is dropped is really dropped, below TCP: each end is told a wrong address of the other, so that nobody takes what
is sent. Retransmissions, their growing waits and connections that nobody ends are then those of a real network.
"""

import subprocess
from pathlib import Path

from rig.namespaces import enter
from rig.patience import until

NEAR, FAR = "10.77.0.1", "10.77.0.2"
NEAR_LINK, FAR_LINK, NOBODY = "02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:99"


def in_own_namespace() -> bool:
    """Give this program a network namespace; False where the system does not allow that, or has no veth."""
    return enter("net", "ip", "link", "add", "name", "probe0", "type", "veth", "peer", "name", "probe1")


class Ether:
    """Between this program at NEAR and a place FAR away, where programs are run by putting `prefix` before them."""

    def __init__(self) -> None:
        self._far = subprocess.Popen(  # ends with this program, at the latest
            ["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        self.prefix = ("nsenter", "--target", str(self._far.pid), "--net")
        until(self._is_away, "a network namespace")
        peer = ("type", "veth", "peer", "name", "far", "address", FAR_LINK, "netns", str(self._far.pid))
        self._run("ip", "link", "add", "name", "near", "address", NEAR_LINK, *peer)
        for prefix, name, address in (((), "near", NEAR), (self.prefix, "far", FAR)):
            self._run(*prefix, "ip", "address", "add", f"{address}/24", "dev", name)
            self._run(*prefix, "ip", "link", "set", name, "up")
            self._run(*prefix, "ip", "link", "set", "lo", "up")
        self.mend()

    def drop(self) -> None:
        """Drop every packet, in both directions."""
        self._neighbours(NOBODY, NOBODY)

    def mend(self) -> None:
        """Let packets through."""
        self._neighbours(NEAR_LINK, FAR_LINK)

    def close(self) -> None:
        """Be gone."""
        assert self._far.stdin is not None
        self._far.stdin.close()
        self._far.wait()

    def _neighbours(self, near: str, far: str) -> None:
        set_to = ("ip", "neighbour", "replace")
        self._run(*set_to, FAR, "lladdr", far, "nud", "permanent", "dev", "near")
        self._run(*self.prefix, *set_to, NEAR, "lladdr", near, "nud", "permanent", "dev", "far")

    def _is_away(self) -> bool:
        """Whether the far process has a namespace of its own by now."""
        return Path(f"/proc/{self._far.pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()

    @staticmethod
    def _run(*description: str) -> None:
        subprocess.run(description, check=True)
