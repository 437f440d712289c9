"""The wheel in an environment of its own, away from the checkout, and the source package, which builds the same."""

import hashlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def run(*command: str | Path, folder: Path) -> str:
    """Run a command in a folder, as somebody does who has no checkout; returns its output."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def build(source: Path, folder: Path) -> Path:
    """Build the wheel of a checkout or a source package."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(source)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(repository, tmp_path_factory.mktemp("wheel"))


def test_the_demo_and_the_service_run_from_it(wheel: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    program = tmp_path / "venv/bin/edgemeta"
    install = [tmp_path / "venv/bin/python", "-m", "pip", "install", "--quiet", f"{wheel}[demo]"]
    subprocess.run(install, check=True, stdout=subprocess.DEVNULL)
    assert "resnet8-cifar10" in run(program, "model", "list", folder=tmp_path)
    assert "cpu        available: C++ kernels" in run(program, "backends", folder=tmp_path)
    summary = json.loads(run(program, "demo", "--seconds", "5", "--json", folder=tmp_path))
    assert summary["received"] > 50
    assert summary["lost"] == 0


def test_the_source_package_builds_the_same_wheel(repository: Path, wheel: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--sdist", "--outdir", str(tmp_path), str(repository)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (source,) = tmp_path.glob("*.tar.gz")
    assert content(build(source, tmp_path)) == content(wheel)


def content(wheel: Path) -> dict[str, str]:
    """Return every file with its digest, but for the library, whose build folder has another name, and the list."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith((".so", "RECORD"))]
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in names}
