"""The board and the service against files and outputs as kernels and systemd write them, and against this machine."""

import os
import platform
from pathlib import Path

import pytest

from edgemeta.cli.doctor.machine import board, service_state, state_of

CORE = "processor\t: {}\nFeatures\t: fp asimd\nCPU part\t: {}\n\n"


def device(root: Path, **files: str) -> Path:
    """A file system with these files."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_a_board_is_named_by_its_device_tree(tmp_path: Path) -> None:
    cores = "".join(CORE.format(number, "0xd05" if number < 4 else "0xd0b") for number in range(8))
    found = board(
        device(
            tmp_path,
            **{
                "proc/device-tree/model": "Radxa ROCK 5B\0",
                "proc/cpuinfo": cores,
                "etc/os-release": 'NAME=x\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
                ".dockerenv": "",
            },
        )
    )
    assert found.model == "Radxa ROCK 5B"
    assert found.processor == "Cortex-A55 + Cortex-A76"
    assert found.distribution == "Debian GNU/Linux 12 (bookworm)"
    assert found.container


def test_a_pc_is_named_by_its_firmware(tmp_path: Path) -> None:
    found = board(
        device(tmp_path, **{"sys/class/dmi/id/sys_vendor": "Intel\n", "sys/class/dmi/id/product_name": "NUC8"})
    )
    assert found.model == "Intel NUC8"
    assert found.distribution is None
    assert not found.container
    assert (
        board(device(tmp_path / "other", **{"proc/cpuinfo": CORE.format(0, "0x1234")})).processor == "ARM part 0x1234"
    )


def test_this_machine() -> None:
    found = board()
    assert found.cores == os.cpu_count()
    assert found.memory_bytes > 1 << 28
    assert found.python == platform.python_version()
    assert platform.release().startswith(found.kernel)
    assert "numpy" in found.packages


@pytest.mark.parametrize(
    ("properties", "state"),
    [
        ("LoadState=loaded\nActiveState=active\n", "active"),
        ("LoadState=loaded\nActiveState=activating\n", "starting"),
        ("LoadState=loaded\nActiveState=failed\n", "failed"),
        ("LoadState=loaded\nActiveState=inactive\n", "inactive"),
        ("LoadState=not-found\nActiveState=inactive\n", "absent"),
        ("", "unknown"),
    ],
)
def test_states_of_the_service(properties: str, state: str) -> None:
    assert state_of(properties) == state


def test_without_systemd_there_is_no_service(tmp_path: Path) -> None:
    assert service_state(tmp_path) == "absent"
