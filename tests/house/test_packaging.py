"""The wheel holds the whole package and nothing else, whatever Python builds it."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.gate("70 s of processor time: the wheel is built, and for that the C++ library"),
    pytest.mark.timeout(1800),
]


@pytest.fixture(scope="module")
def wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(out), str(repository)]
    subprocess.run(command, check=True, capture_output=True)
    (built,) = out.glob("*.whl")
    return built


def test_the_wheel_holds_every_module_and_data_file(repository: Path, wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    tracked = subprocess.run(["git", "ls-files"], cwd=repository, capture_output=True, text=True, check=True)
    folders = ("model", "kernels", "plugins", "tasks", "daemon", "toolchain", "cli", "configs")
    shipped = (".py", ".yaml", ".safetensors", ".json", ".cu", ".cuh", ".html", ".css", ".js", ".svg")
    expected = {
        f"edgemeta/{name}" for name in tracked.stdout.split() if name.startswith(folders) and name.endswith(shipped)
    }
    assert expected <= names
    assert "edgemeta/py.typed" in names


def test_the_wheel_holds_the_library_but_no_source_of_it(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert [name for name in names if name.endswith(".so")]
    assert not [name for name in names if name.endswith((".cpp", ".h", "CMakeLists.txt"))]


def test_the_wheel_takes_one_global_name_and_serves_every_python(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"edgemeta"}
    assert "-py3-none-" in wheel.name
