"""The machine itself: board, processors, system, and whether the service runs."""

import os
import platform
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from edgemeta.cli.doctor.report import Board
from edgemeta.kernels.cpu.form_file import processor_name

PACKAGES = (
    "numpy",
    "opencv-python-headless",
    "av",
    "paho-mqtt",
    "pycuda",
    "ai-edge-litert",
    "tflite-runtime",
    "onnxruntime",
)
"""Whose versions are in the report."""

ARM_PARTS = {
    0xD03: "Cortex-A53",
    0xD04: "Cortex-A35",
    0xD05: "Cortex-A55",
    0xD07: "Cortex-A57",
    0xD08: "Cortex-A72",
    0xD09: "Cortex-A73",
    0xD0A: "Cortex-A75",
    0xD0B: "Cortex-A76",
    0xD0C: "Neoverse-N1",
    0xD0D: "Cortex-A77",
    0xD40: "Neoverse-V1",
    0xD41: "Cortex-A78",
    0xD42: "Cortex-A78AE",
    0xD46: "Cortex-A510",
    0xD47: "Cortex-A710",
    0xC07: "Cortex-A7",
    0xC08: "Cortex-A8",
    0xC09: "Cortex-A9",
    0xC0D: "Cortex-A17",
    0xC0F: "Cortex-A15",
}
"""Names of ARM's own processors by the number in /proc/cpuinfo."""

SYSTEMD_WITHIN = 5.0
"""Seconds that systemd may take to answer."""

ServiceState = Literal["active", "inactive", "failed", "starting", "absent", "unknown"]
_STATES: dict[str, ServiceState] = {
    "active": "active",
    "reloading": "active",
    "inactive": "inactive",
    "deactivating": "inactive",
    "failed": "failed",
    "activating": "starting",
}


def board(root: Path = Path("/")) -> Board:
    """The machine; root: of the file system, another in tests."""
    system = _fields(root / "etc/os-release", "=")
    kernel = re.match(r"\d+\.\d+", platform.release())
    return Board(
        model=_model(root),
        processor=_processors(root),
        architecture=platform.machine(),
        bits=64 if sys.maxsize > 1 << 32 else 32,
        cores=os.cpu_count() or 1,
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        kernel=kernel[0] if kernel else "",
        distribution=system.get("PRETTY_NAME", "").strip('"') or None,
        libc=" ".join(filter(None, platform.libc_ver())),
        python=platform.python_version(),
        packages={name: found for name in PACKAGES if (found := public_version(name)) is not None},
        container=any((root / mark).exists() for mark in (".dockerenv", "run/.containerenv")),
    )


def public_version(package: str) -> str | None:
    """Version of an installed package without a maker's own suffix, else None."""
    try:
        return version(package).partition("+")[0]
    except PackageNotFoundError:
        return None


def _model(root: Path) -> str | None:
    """Of a board its device tree, of a PC the maker and product of its firmware."""
    firmware = root / "sys/class/dmi/id"
    texts = [_text(root / "proc/device-tree/model"), *(_text(firmware / key) for key in ("sys_vendor", "product_name"))]
    return texts[0] or " ".join(filter(None, texts[1:])) or None


def _processors(root: Path) -> str:
    """The names that Linux states, or those of ARM's parts, slowest kind of core first as Linux lists them."""
    parts = re.findall(r"^CPU part\s*:\s*(0x[0-9a-f]+)", _text(root / "proc/cpuinfo"), re.MULTILINE)
    names = [ARM_PARTS.get(int(part, 16), f"ARM part {part}") for part in dict.fromkeys(parts)]
    return " + ".join(names) or processor_name()


def service_state(root: Path = Path("/")) -> ServiceState:
    """Of the unit `edgemeta`."""
    if not (root / "run/systemd/system").is_dir():
        return "absent"
    command = ["systemctl", "show", "--property=LoadState,ActiveState", "edgemeta.service"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SYSTEMD_WITHIN, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return state_of(done.stdout)


def state_of(properties: str) -> ServiceState:
    """From what `systemctl show` prints."""
    found = dict(line.partition("=")[::2] for line in properties.splitlines())
    if found.get("LoadState") == "not-found":
        return "absent"
    return _STATES.get(found.get("ActiveState", ""), "unknown")


def _fields(file: Path, mark: str) -> dict[str, str]:
    return {key.strip(): value.strip() for key, _, value in (line.partition(mark) for line in _text(file).splitlines())}


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip("\0\n ")
    except OSError:
        return ""
