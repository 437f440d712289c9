"""Run a command in a root of another processor: `emulated.py ROOT COMMAND...`, as root, on Linux 6.7 or newer.

The kernel is told of the emulator in a user namespace of the command's own, so that nothing changes for the machine.
"""

import subprocess
import sys
import time
from pathlib import Path

HEADER = bytes.fromhex("7f454c460201010000000000000000000200b700")
"""What a program for 64-bit ARM begins with: ELF, 64 bits, little endian, executable, machine 183."""

MASK = bytes.fromhex("ffffffffffffff00fffffffffffffffffeffffff")
"""The operating system's byte may be any, and a shared object is a program, too."""

EMULATOR = "/usr/bin/qemu-aarch64-static"

INSIDE = """
read mapped
mount -t binfmt_misc none /proc/sys/fs/binfmt_misc && printf %s "$1" >/proc/sys/fs/binfmt_misc/register &&
mount -t proc proc "$0/proc" && shift && exec "$@"
"""


def escaped(content: bytes) -> str:
    """Write bytes as binfmt_misc reads them."""
    return "".join(f"\\x{byte:02x}" for byte in content)


def main(folder: str, command: list[str]) -> int:
    """Return the command's exit code."""
    # F: the emulator is opened now, outside of the root.
    registration = f":aarch64:M::{escaped(HEADER)}:{escaped(MASK)}:{EMULATOR}:F"
    spaces = ["--user", "--mount", "--pid", "--fork", "--kill-child"]
    process = subprocess.Popen(
        ["unshare", *spaces, "sh", "-c", INSIDE, folder, registration, *command], stdin=subprocess.PIPE
    )
    ours = Path("/proc/self/ns/user").readlink()
    while Path(f"/proc/{process.pid}/ns/user").readlink() == ours:
        time.sleep(0.01)
    for kind in ("uid_map", "gid_map"):  # every user is who it was
        Path(f"/proc/{process.pid}/{kind}").write_text("0 0 4294967295\n")
    process.communicate(b"mapped\n")
    return process.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
