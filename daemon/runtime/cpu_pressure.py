"""How much tasks of this machine wait for a processor: pressure stall information of the kernel."""

import re
from pathlib import Path

PRESSURE = Path("/proc/pressure/cpu")
"""Absent where the kernel does not measure it."""

MICROSECONDS = 1_000_000


def cpu_stalled() -> float | None:
    """Return the seconds since boot in which some task waited for a processor; None where they are not measured."""
    try:
        found = re.search(r"^some .*total=(\d+)$", PRESSURE.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) / MICROSECONDS if found else None
