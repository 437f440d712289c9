"""How the device itself is, from /proc and /sys: load, processors, memory, temperature, disk, throttling.

What a kernel, a container or a sandbox does not show is None.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from edgemeta.daemon.messages.stats import DeviceHealth

PI_THROTTLED = 0xF
"""Bits of a Raspberry Pi's `get_throttled` that speak of now: under-voltage, capped, throttled, too hot."""

JETSON_ALERT = re.compile(r"throttle-alert|oc\d-throt", re.IGNORECASE)
"""Cooling devices of a Jetson that are active while it is throttled."""

UNREAL = 150.0
"""Degrees Celsius above which, and below minus which, a sensor is not connected."""


class HealthReader:
    """Reads the health of the device.

    data_folder: on the disk whose room counts; it need not exist yet. root: of the file system, another in tests.
    last: what was read last.
    """

    def __init__(self, data_folder: Path, root: Path = Path("/")) -> None:
        self._folder = data_folder
        self._root = root
        self._ticks: tuple[int, int] | None = None
        self.last = self.read()

    @property
    def known(self) -> tuple[str, ...]:
        """Names of the fields that this device has."""
        found = {name for name, value in self.last if value is not None}
        return tuple(name for name in DeviceHealth.model_fields if name in found or (name == "cpu" and self._ticks))

    def read(self) -> DeviceHealth:
        """Read all of it; the share of the processors is that since the last call."""
        disk, free = self._disk()
        self.last = DeviceHealth(
            load=self._load(),
            cpu=self._cpu(),
            memory=self._memory(),
            temperature_c=max(self._temperatures(), default=None),
            disk=disk,
            disk_free_bytes=free,
            throttled=self._throttled(),
        )
        return self.last

    def _text(self, path: Path) -> str:
        try:
            return path.read_text("ascii")
        except (OSError, ValueError):
            return ""

    def _load(self) -> float | None:
        found = re.match(r"\d+\.\d+", self._text(self._root / "proc/loadavg"))
        return float(found[0]) if found else None

    def _cpu(self) -> float | None:
        """From the ticks of all processors: user, nice, system, idle, iowait, irq, softirq, steal."""
        found = re.match(r"cpu +((?:\d+ ){7}\d+)", self._text(self._root / "proc/stat"))
        if found is None:
            return None
        ticks = [int(each) for each in found[1].split()]
        now = sum(ticks), ticks[3] + ticks[4]
        before, self._ticks = self._ticks, now
        if before is None or now[0] <= before[0]:
            return None
        return round(min(1.0, max(0.0, 1 - (now[1] - before[1]) / (now[0] - before[0]))), 4)

    def _memory(self) -> float | None:
        sizes = dict(re.findall(r"^(MemTotal|MemAvailable): +(\d+) kB$", self._text(self._root / "proc/meminfo"), re.M))
        if len(sizes) < 2 or not int(sizes["MemTotal"]):
            return None
        return round(min(1.0, max(0.0, 1 - int(sizes["MemAvailable"]) / int(sizes["MemTotal"]))), 4)

    def _temperatures(self) -> Iterator[float]:
        for zone in (self._root / "sys/class/thermal").glob("thermal_zone*/temp"):
            text = self._text(zone).strip()
            if re.fullmatch(r"-?\d+", text) and abs(int(text)) < 1000 * UNREAL:
                yield int(text) / 1000

    def _disk(self) -> tuple[float | None, int | None]:
        folder = next((each for each in (self._folder, *self._folder.parents) if each.is_dir()), None)
        if folder is None:
            return None, None
        try:
            found = os.statvfs(folder)
        except OSError:
            return None, None
        used, room = found.f_blocks - found.f_bfree, found.f_blocks - found.f_bfree + found.f_bavail
        return (round(used / room, 4) if room else None), found.f_bavail * found.f_frsize

    def _throttled(self) -> bool | None:
        """Of a Raspberry Pi as its firmware says, of a Jetson while one of its alerts is active."""
        for file in (self._root / "sys/devices/platform").glob("soc*/soc*:firmware/get_throttled"):
            text = self._text(file).strip()
            if re.fullmatch(r"(0x)?[0-9a-fA-F]+", text):
                return bool(int(text, 16) & PI_THROTTLED)
        alerts = [
            self._text(kind.with_name("cur_state")).strip()
            for kind in (self._root / "sys/class/thermal").glob("cooling_device*/type")
            if JETSON_ALERT.search(self._text(kind))
        ]
        known = [int(each) for each in alerts if each.isdecimal()]
        return any(known) if known else None
