"""A network whose packets can be dropped: two network namespaces with a veth pair between them.

Packets are dropped below TCP: each end gets a wrong link address of the other, so that nothing accepts its packets.
Retransmissions with growing delays and half-open connections are then those of a real network.
"""

import subprocess
from pathlib import Path

from rig.namespaces import enter
from rig.waiting import wait_until

NEAR, FAR = "10.77.0.1", "10.77.0.2"
NEAR_LINK, FAR_LINK, NO_LINK = "02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:99"


def in_own_namespace() -> bool:
    """Move this program into a network namespace; False if the system does not allow it or has no veth."""
    return enter("net", "ip", "link", "add", "name", "probe0", "type", "veth", "peer", "name", "probe1")


class NamespaceNetwork:
    """A network between this program at NEAR and programs at FAR, whose commands are started with `prefix`."""

    def __init__(self) -> None:
        self._far = subprocess.Popen(  # ends with this program at the latest
            ["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        self.prefix = ("nsenter", "--target", str(self._far.pid), "--net")
        wait_until(self._has_namespace, "a network namespace")
        peer = ("type", "veth", "peer", "name", "far", "address", FAR_LINK, "netns", str(self._far.pid))
        self._run("ip", "link", "add", "name", "near", "address", NEAR_LINK, *peer)
        for prefix, name, address in (((), "near", NEAR), (self.prefix, "far", FAR)):
            self._run(*prefix, "ip", "address", "add", f"{address}/24", "dev", name)
            self._run(*prefix, "ip", "link", "set", name, "up")
            self._run(*prefix, "ip", "link", "set", "lo", "up")
        self.restore()

    def drop(self) -> None:
        """Drop every packet, in both directions."""
        self._neighbours(NO_LINK, NO_LINK)

    def restore(self) -> None:
        """Let packets pass."""
        self._neighbours(NEAR_LINK, FAR_LINK)

    def close(self) -> None:
        """Remove the network."""
        assert self._far.stdin is not None
        self._far.stdin.close()
        self._far.wait()

    def _neighbours(self, near: str, far: str) -> None:
        set_to = ("ip", "neighbour", "replace")
        self._run(*set_to, FAR, "lladdr", far, "nud", "permanent", "dev", "near")
        self._run(*self.prefix, *set_to, NEAR, "lladdr", near, "nud", "permanent", "dev", "far")

    def _has_namespace(self) -> bool:
        """Whether the far process has its own namespace by now."""
        return Path(f"/proc/{self._far.pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()

    @staticmethod
    def _run(*description: str) -> None:
        subprocess.run(description, check=True)
