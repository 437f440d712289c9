"""The package for 64-bit ARM in an emulated Debian 12: it installs, and its logits are the reference's, bit for bit."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.packaging.root import Root

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]

DIGESTS = Path(__file__).with_name("conformance_digests.py")

BUNDLE = ("/usr/lib/edgemeta/python3.11", "/usr/lib/edgemeta/packages")


def test_every_conformance_case_gives_the_references_bits(
    repository: Path, built: Callable[[str], Path], clean_root: Callable[[str], Root]
) -> None:
    root = clean_root("bookworm-arm64")
    root.install(built("arm64"))
    assert root.run("uname", "-m") == (0, "aarch64\n")
    code, said = root.run("edgemeta", "check", "/etc/edgemeta/config.yaml")
    assert code == 0, said
    assert "on cpu for front" in said

    (root.folder / "root" / DIGESTS.name).write_text(DIGESTS.read_text())
    table = root.folder / "root" / "tests" / "conformance"
    table.mkdir(parents=True)
    for module in (repository / "tests" / "conformance").glob("*.py"):
        (table / module.name).write_text(module.read_text())
    code, emulated = root.run("/usr/bin/python3", "-IS", f"/root/{DIGESTS.name}", "cpu", "/root", *BUNDLE)
    assert code == 0, emulated
    command = [sys.executable, str(DIGESTS), "reference"]
    reference = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    assert len(reference.splitlines()) > 100
    assert emulated.splitlines() == reference.splitlines()

    root.dpkg("--purge", "edgemeta")
    assert not (root.folder / "usr/lib/edgemeta").exists()
