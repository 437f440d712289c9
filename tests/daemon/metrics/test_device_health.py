"""The device's health against files as kernels write them, and against this machine."""

import os
from pathlib import Path

import pytest

from edgemeta.daemon.messages.stats import DeviceHealth
from edgemeta.daemon.metrics.device_health import HealthReader

STAT = "cpu  {user} 0 100 {idle} 100 0 0 0 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n"
FILES = {
    "proc/loadavg": "1.25 0.50 0.25 2/345 6789\n",
    "proc/stat": STAT.format(user=100, idle=700),
    "proc/meminfo": "MemTotal:        4000000 kB\nMemFree:          100000 kB\nMemAvailable:    1000000 kB\n",
    "sys/class/thermal/thermal_zone0/temp": "51540\n",
    "sys/class/thermal/thermal_zone1/temp": "62000\n",
    "sys/class/thermal/thermal_zone2/temp": "-256000\n",
}
PI = "sys/devices/platform/soc/soc:firmware/get_throttled"
JETSON = {
    "sys/class/thermal/cooling_device0/type": "pwm-fan\n",
    "sys/class/thermal/cooling_device0/cur_state": "3\n",
    "sys/class/thermal/cooling_device1/type": "cpu-throttle-alert\n",
    "sys/class/thermal/cooling_device1/cur_state": "0\n",
}


def device(root: Path, **files: str) -> HealthReader:
    """A device whose kernel shows these files."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return HealthReader(root, root)


def test_load_memory_temperature_and_processors(tmp_path: Path) -> None:
    reader = device(tmp_path, **FILES)
    first = reader.last
    assert (first.load, first.memory, first.temperature_c, first.cpu) == (1.25, 0.75, 62.0, None)
    assert first.throttled is None
    (tmp_path / "proc/stat").write_text(STAT.format(user=400, idle=800))  # 300 of 400 ticks busy
    assert reader.read().cpu == 0.75
    assert reader.known == ("load", "cpu", "memory", "temperature_c", "disk", "disk_free_bytes")


@pytest.mark.parametrize(("text", "throttled"), [("0x0", False), ("50000", False), ("0x50005", True), ("4\n", True)])
def test_a_raspberry_pi_says_whether_it_is_throttled_now(tmp_path: Path, text: str, throttled: bool) -> None:
    """Bits 0 to 3 are now, bits 16 to 19 since the boot."""
    assert device(tmp_path, **{PI: text}).last.throttled is throttled


def test_a_jetson_is_throttled_while_an_alert_is_active(tmp_path: Path) -> None:
    assert device(tmp_path, **JETSON).last.throttled is False
    (tmp_path / "sys/class/thermal/cooling_device1/cur_state").write_text("1\n")
    assert HealthReader(tmp_path, tmp_path).last.throttled is True


def test_what_a_kernel_does_not_show_is_left_out(tmp_path: Path) -> None:
    reader = device(tmp_path, **{"proc/stat": "nonsense", "proc/meminfo": "MemTotal: 0 kB\n", PI: "?"})
    assert {name for name, value in reader.last if value is not None} == {"disk", "disk_free_bytes"}
    assert reader.known == ("disk", "disk_free_bytes")


def test_this_machine(tmp_path: Path) -> None:
    """Against os and the same files of the kernel; the folder need not exist yet."""
    reader = HealthReader(tmp_path / "not" / "yet")
    found = reader.last
    assert found.load == pytest.approx(os.getloadavg()[0], abs=1)
    assert found.memory is not None
    assert 0 < found.memory < 1
    assert found.disk_free_bytes == pytest.approx(
        os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize, rel=0.2
    )
    DeviceHealth.model_validate(found.model_dump())
