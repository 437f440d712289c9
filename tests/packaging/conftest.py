"""The built package, and clean systems to install it in."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from edgemeta import __version__
from tests.packaging.emulated import EMULATOR
from tests.packaging.root import EmulatedRoot, Root, debootstrap


@pytest.fixture(scope="session")
def architecture() -> str:
    """This machine's, in Debian's words."""
    names = {"x86_64": "amd64", "aarch64": "arm64"}
    return names.get(os.uname().machine, os.uname().machine)


@pytest.fixture(scope="session")
def built(repository: Path) -> Callable[[str], Path]:
    """Gives the package that `make deb` has built for an architecture."""

    def package(architecture: str) -> Path:
        path = repository / "dist" / f"edgemeta_{__version__}_{architecture}.deb"
        if not path.exists():
            pytest.skip(f"{path.name} is not built: make deb ARCH={architecture}")
        return path

    return package


@pytest.fixture
def clean_root(repository: Path, tmp_path: Path) -> Callable[[str], Root]:
    """Makes a clean system of a release, such as `bookworm`, or `bookworm-arm64` by emulation."""
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        pytest.skip("clean roots are made by root with debootstrap (Debian package debootstrap)")

    def make(release: str) -> Root:
        kind = EmulatedRoot if "-" in release else Root
        if kind is EmulatedRoot and not Path(EMULATOR).exists():
            pytest.skip(f"no {EMULATOR} (Debian package qemu-user-static)")
        return kind.unpacked(debootstrap(release, repository / "build" / "roots"), tmp_path / release)

    return make
