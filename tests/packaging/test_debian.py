"""The Debian package's recipe agrees with the project that it packages. What it does installed: test_installed.py."""

import re
import shutil
import subprocess
import sys
from importlib.metadata import metadata, requires
from pathlib import Path

import click
import pytest

from edgemeta import __version__
from edgemeta.cli.main import edgemeta


@pytest.fixture
def packaging(repository: Path) -> Path:
    return repository / "packaging"


def test_its_version_is_the_projects(packaging: Path) -> None:
    assert (packaging / "debian/changelog").read_text().startswith(f"edgemeta ({__version__}) ")


def test_it_is_for_the_pythons_that_the_project_is_for(repository: Path) -> None:
    """From the oldest on, without a gap: the dependency on python3 is a range."""
    found = re.search(r"^PYTHONS \?= (.*)$", (repository / "Makefile").read_text(), re.MULTILINE)
    assert found is not None
    minors = [int(python.removeprefix("3.")) for python in found[1].split()]
    assert minors == list(range(minors[0], minors[0] + len(minors)))
    assert metadata("edgemeta")["Requires-Python"] == f">=3.{minors[0]}"


def test_the_glibc_it_asks_for_is_that_of_its_bundle(packaging: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(packaging))
    from bundle import GLIBC

    assert f" libc6 (>= 2.{GLIBC})," in (packaging / "debian/control").read_text()


def test_the_licence_of_everything_in_the_bundle_is_told(packaging: Path) -> None:
    reported = re.sub(r"[-_\s]+", "-", (packaging / "debian/copyright").read_text().lower())
    lines = [line for line in requires("edgemeta") or [] if "extra ==" not in line or "signature" in line]
    names = [re.split(r"[^\w-]", line)[0].lower() for line in lines]
    assert {"numpy", "cryptography"} <= set(names)
    assert [name for name in names if name not in reported] == []


def test_the_operators_files_are_where_the_unit_looks_for_them(repository: Path, packaging: Path) -> None:
    installed = dict(line.split() for line in (packaging / "debian/edgemeta.install").read_text().splitlines())
    unit = (repository / "systemd/edgemeta.service").read_text()
    assert f"ExecStart=/{installed['edgemeta']}/edgemeta run /{installed['config.yaml']}/config.yaml\n" in unit
    assert f"EnvironmentFile=-/{installed['environment']}/environment\n" in unit
    purge = (packaging / "debian/edgemeta.postrm").read_text()
    for folder in re.findall(r"^(State|Cache)Directory=(\S+)$", unit, re.MULTILINE):
        place = {"State": "/var/lib", "Cache": "/var/cache"}[folder[0]]
        assert re.search(rf"rm -rf .*{place}/{folder[1]}\b", purge), f"purge leaves {place}/{folder[1]}"


@pytest.mark.parametrize("script", ["edgemeta.postinst", "edgemeta.prerm", "edgemeta.postrm"])
def test_what_dpkg_runs_is_a_script_that_stops_at_the_first_error(packaging: Path, script: str) -> None:
    path = packaging / "debian" / script
    assert path.read_text().startswith("#!/bin/sh\nset -e\n")
    assert "#DEBHELPER#" in path.read_text().splitlines()
    subprocess.run(["sh", "-n", str(path)], check=True)


REFUSED = {
    "wheel.sh": "wheel: no packaging/riscv64.cmake: a wheel for riscv64 is built on such a machine only\n",
    "deb.sh": "deb: riscv64: expected amd64 or arm64\n",
}


@pytest.mark.parametrize("script", REFUSED)
def test_a_machine_that_cannot_be_built_for_is_refused_in_one_sentence(packaging: Path, script: str) -> None:
    done = subprocess.run([str(packaging / script), "riscv64"], stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode != 0
    assert done.stderr == REFUSED[script]


@pytest.fixture(scope="module")
def manual(repository: Path) -> str:
    command = [sys.executable, str(repository / "packaging/manpage.py")]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def test_the_manual_page_has_every_verb(manual: str) -> None:
    verbs = edgemeta.list_commands(click.Context(edgemeta))
    assert "run" in verbs
    assert [verb for verb in verbs if f"\n.SS edgemeta {verb}" not in manual] == []


def test_groff_has_nothing_to_say_against_the_manual_page(manual: str) -> None:
    groff = shutil.which("groff")
    if groff is None:
        pytest.skip("groff is not installed (Debian package groff-base)")
    command = [groff, "-man", "-Kutf8", "-Tutf8", "-ww"]
    done = subprocess.run(command, input=manual, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "edgemeta check [OPTIONS] FILE" in done.stdout
