"""The built package, and clean systems to install it in."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from edgemeta import __version__

from .root import Root, debootstrap


@pytest.fixture(scope="session")
def architecture() -> str:
    """This machine's, in Debian's words."""
    names = {"x86_64": "amd64", "aarch64": "arm64"}
    return names.get(os.uname().machine, os.uname().machine)


@pytest.fixture(scope="session")
def deb(repository: Path, architecture: str) -> Path:
    """The package that `make deb` has built."""
    path = repository / "dist" / f"edgemeta_{__version__}_{architecture}.deb"
    if not path.exists():
        pytest.skip(f"{path.name} is not built: make deb")
    return path


@pytest.fixture
def clean_root(repository: Path, tmp_path: Path) -> Callable[[str], Root]:
    """Makes a clean system of a release."""
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        pytest.skip("clean roots are made by root with debootstrap (Debian package debootstrap)")
    return lambda release: Root.unpacked(debootstrap(release, repository / "build" / "roots"), tmp_path / release)
