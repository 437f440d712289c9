"""The unit and its files, checked with systemd's own tools; nothing is started."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

GREATEST_EXPOSURE = 3.0
"""Of 10; `systemd-analyze security` rates up to 4.4 as OK."""


def tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed (Debian package systemd)")
    return path


@pytest.fixture
def unit(repository: Path) -> Path:
    return repository / "systemd" / "edgemeta.service"


def settings(unit: Path) -> list[tuple[str, str]]:
    """Every `key=value` line, in order."""
    pairs = [line.partition("=") for line in unit.read_text().splitlines() if re.match(r"[A-Z]\w+=", line)]
    return [(key, value) for key, _, value in pairs]


def test_systemd_accepts_it_without_warnings(unit: Path, tmp_path: Path) -> None:
    """`verify` exits with 0 even for keys it does not know: only silence counts. The program must exist for it."""
    program = Path(sys.executable).with_name("edgemeta")
    copy = tmp_path / "edgemeta.service"
    copy.write_text(unit.read_text().replace("/usr/bin/edgemeta", str(program)))
    command = [tool("systemd-analyze"), "verify", "--man=no", str(copy)]
    assert said(command) == (0, "")
    copy.write_text(copy.read_text().replace("RestartSec=", "RestartSecs="))
    assert "RestartSecs" in said(command)[1], "a mistake is heard"


def test_its_exposure_is_small(unit: Path) -> None:
    command = [tool("systemd-analyze"), "security", "--offline=yes", "--no-pager"]
    code, text = said([*command, f"--threshold={GREATEST_EXPOSURE * 10:.0f}", str(unit)])
    assert code == 0, text
    found = re.search(r"Overall exposure level for edgemeta.service: ([\d.]+)", text)
    assert found is not None, text
    assert float(found[1]) <= GREATEST_EXPOSURE


def said(command: list[str]) -> tuple[int, str]:
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return result.returncode, result.stdout


def test_sysusers_creates_the_user_in_the_groups_of_cameras_and_gpus(
    repository: Path, unit: Path, tmp_path: Path
) -> None:
    (tmp_path / "etc").mkdir()
    recipe = repository / "systemd" / "edgemeta.sysusers"
    assert said([tool("systemd-sysusers"), f"--root={tmp_path}", str(recipe)])[0] == 0
    users = (tmp_path / "etc" / "passwd").read_text()
    assert f"{dict(settings(unit))['User']}:x:" in users
    assert "/var/lib/edgemeta:/usr/sbin/nologin" in users
    groups = (tmp_path / "etc" / "group").read_text()
    assert [re.search(rf"^{group}:x:\d+:edgemeta$", groups, re.MULTILINE) is None for group in ("video", "render")] == [
        False,
        False,
    ]


def test_every_setting_has_its_reason_above_it(unit: Path) -> None:
    """In a comment at the head of its block; that of `[Install]` is the boot."""
    blocks = [
        block for block in re.split(r"\n\n|\[\w+\]\n", unit.read_text()) if re.search(r"^\w+=", block, re.MULTILINE)
    ]
    assert len(blocks) > 10
    assert [block for block in blocks if not block.startswith("#")] == ["WantedBy=multi-user.target\n"]


def test_the_exit_codes_without_restart_are_those_of_the_command(unit: Path) -> None:
    assert dict(settings(unit))["RestartPreventExitStatus"] == "2 78"
    program = str(Path(sys.executable).with_name("edgemeta"))
    assert said([program, "run"])[0] == 2
    assert said([program, "run", "gone.yaml"])[0] == 78
