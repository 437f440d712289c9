"""What is skipped is named with the part to install, once for each part; on the gate it has failed."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.missing_parts import part_of

SKIPPING = """
import pytest

@pytest.mark.parametrize("number", [1, 2])
def test_broker(number):
    pytest.skip("mosquitto is not installed (Debian package mosquitto)")

def test_camera():
    pytest.skip("no RTSP server (Debian packages python3-gi, gstreamer1.0-tools)")

def test_instructions():
    pytest.skip("processor: it has none of amx")

@pytest.mark.xfail(reason="known")
def test_known():
    assert False
"""
SKIPPED_WHOLE = "import pytest\npytest.importorskip('nothing_of_that_name', reason=\"no torch (extra `train`)\")\n"
WITHOUT_A_REASON = "import pytest\n@pytest.mark.gate\ndef test_long(): pass\n"


@pytest.mark.parametrize(
    ("reason", "part"),
    [
        ("mosquitto is not installed (Debian package mosquitto)", "Debian package mosquitto"),
        ("no browser (Debian packages chromium, chromium-driver)", "Debian packages chromium chromium-driver"),
        ("no torch (extra `train`)", "pip install 'edgemeta[train]'"),
        ("no compiler: pip install 'edgemeta[cuda-compiler]'", "pip install 'edgemeta[cuda-compiler]'"),
        ("no mount (needs root): mount: /tmp/a: permission denied", "no mount (needs root)"),
        ("test data: /data is not there", "test data: /data is not there"),
    ],
)
def test_part_of(reason: str, part: str) -> None:
    assert part_of(reason) == part


def run(folder: Path, *arguments: str, full: str = "0") -> "subprocess.CompletedProcess[str]":
    (folder / "test_skipping.py").write_text(SKIPPING)
    (folder / "test_skipped_whole.py").write_text(SKIPPED_WHOLE)
    command = [sys.executable, "-m", "pytest", "-p", "tests.missing_parts", "-p", "no:cacheprovider", *arguments]
    environment = os.environ | {"EDGEMETA_FULL": full, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_ADDOPTS"):
        environment.pop(name, None)
    return subprocess.run(
        [*command, "."], cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False
    )


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param((), id="one process"),
        pytest.param(
            ("-p", "xdist", "-n", "2", "--dist", "worksteal"),
            id="xdist",
            marks=pytest.mark.gate("5 s: three processes"),
        ),
    ],
)
def test_the_end_of_a_run_names_each_missing_part_once(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = run(tmp_path, *arguments)
    lines = [line.strip() for line in done.stdout.split("skipped, since parts are missing", 1)[1].splitlines()]
    assert "2 tests      Debian package mosquitto" in lines
    assert "1 test       Debian packages python3-gi gstreamer1.0-tools" in lines
    assert "1 test       processor: it has none of amx" in lines
    assert "1 test file  pip install 'edgemeta[train]'" in lines
    assert done.returncode == 0


@pytest.mark.gate("4 s: pytest is run twice")
def test_on_the_gate_what_is_skipped_has_failed_and_what_is_known_to_fail_has_not(tmp_path: Path) -> None:
    done = run(tmp_path, full="1")
    assert done.returncode != 0
    assert (
        "3 failed, 1 skipped, 1 xfailed, 1 error" in run(tmp_path, "--continue-on-collection-errors", full="1").stdout
    )
    assert "skipped where nothing may be skipped" in done.stdout


@pytest.mark.gate("4 s: all tests are collected")
def test_files_that_need_a_part_are_skipped_without_it(repository: Path) -> None:
    """The README's `make test` is run without PyTorch, which the gate always has."""
    hidden = "import sys, pytest; sys.modules['torch'] = None; sys.exit(pytest.main(sys.argv[1:]))"
    command = [sys.executable, "-c", hidden, "--collect-only", "-q", "-n", "0", "-p", "no:cacheprovider", "tests"]
    environment = os.environ | {"EDGEMETA_FULL": "0"}
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_ADDOPTS"):
        environment.pop(name, None)
    done = subprocess.run(
        command, cwd=repository, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, "\n".join(
        line for line in done.stdout.splitlines() if line.startswith(("ERROR", "E "))
    )


def test_a_test_for_the_gate_says_why(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "test_long.py").write_text(WITHOUT_A_REASON)
    (tmp_path / "conftest.py").write_text((repository / "tests" / "conftest.py").read_text())
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--import-mode=importlib", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode != 0
    assert "test_long.py::test_long: the mark `gate` needs a reason" in done.stdout + done.stderr


def test_no_test_names_a_package_otherwise(repository: Path) -> None:
    """A reason that is written out names its part, or tells of one that no package brings."""
    nameless = {
        "this machine has an NVIDIA driver; the tests marked gpu are for it",
        "PyCUDA is not installed: benchmarks/gpu/pycuda_wheel.sh makes its wheel",
        "compute-sanitizer is not installed (it is part of the CUDA toolkit)",
        "no Docker daemon runs here",
    }
    found = set()
    for path in (repository / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("pytest.skip", "pytest.importorskip"):
                words = [*node.args[:1], *(each.value for each in node.keywords if each.arg == "reason")]
                found |= {word.value for word in words[-1:] if isinstance(word, ast.Constant)}
    assert len(found) > 20
    assert {reason for reason in found if part_of(reason) == reason} <= nameless
