"""Cubins are compiled once, found again, and never trusted when anything that decides them has changed."""

import logging
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from edgemeta.kernels.cuda.compile.cache import Cubins, default_folder, digest, holds, texts
from edgemeta.kernels.cuda.compile.compiler import Compiler, CompilerError
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES, Architecture
from edgemeta.kernels.cuda.plan.launch_plan import Source

NANO, ORIN = ARCHITECTURES["sm_53"], ARCHITECTURES["sm_87"]
KERNEL = '#include "shared.cuh"\nextern "C" __global__ void kernel(int* out) { *out = VALUE + SIZE; }\n'


class Counted:
    """The real compiler, which counts its calls."""

    def __init__(self, compiler: Compiler, version: str | None = None) -> None:
        self.compiler = compiler
        self.version = version or compiler.version
        self.compiled = 0

    def compile(self, source: Source, architecture: Architecture) -> bytes:
        self.compiled += 1
        return self.compiler.compile(source, architecture)


@pytest.fixture
def source(write, tmp_path: Path) -> Source:
    (tmp_path / "shared.cuh").write_text("#define VALUE 1\n")
    return write(KERNEL, SIZE=2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_a_variant_is_compiled_once(compiler: Compiler, source: Source, folder: Path) -> None:
    first = Counted(compiler)
    cubin = Cubins(folder, first).get(source, NANO)
    assert cubin == compiler.compile(source, NANO)
    second = Counted(compiler)
    assert Cubins(folder, second).get(source, NANO) == cubin
    assert (first.compiled, second.compiled) == (1, 0)


def test_everything_that_determines_the_code_is_in_the_key(
    compiler: Compiler, source: Source, folder: Path, write
) -> None:
    counted = Counted(compiler)
    cubins = Cubins(folder, counted)
    cubins.get(source, NANO)
    cubins.get(source, ORIN)
    cubins.get(write(KERNEL, SIZE=3), NANO)
    Path(source.path).with_name("shared.cuh").write_text("#define VALUE 7\n")
    cubins.get(source, NANO)
    cubins.get(write(KERNEL + "// changed\n", SIZE=2), NANO)
    assert counted.compiled == 5
    newer = Counted(compiler, "nvrtc 99.0")
    Cubins(folder, newer).get(source, NANO)
    assert newer.compiled == 1


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty"])
def test_a_damaged_cubin_is_detected_and_compiled_again(
    compiler: Compiler, source: Source, folder: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    cubin = Cubins(folder, compiler).get(source, NANO)
    (path,) = (folder / "sm_53").iterdir()
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes({"cut": path.read_bytes()[:-1], "flipped": bytes(data), "empty": b""}[damage])
    with caplog.at_level(logging.WARNING):
        assert Cubins(folder, compiler).get(source, NANO) == cubin
    assert f"{path} is damaged" in caplog.text
    assert Cubins(folder, None).get(source, NANO) == cubin


def test_without_a_compiler_cubins_of_any_version_are_used(compiler: Compiler, source: Source, folder: Path) -> None:
    cubin = Cubins(folder, Counted(compiler, "nvcc 10.2.300")).get(source, NANO)
    assert Cubins(folder, None).get(source, NANO) == cubin
    with pytest.raises(CompilerError, match=r"no cubin of .*kernel\.cu .* for sm_87 .*kernels build --arch sm_87"):
        Cubins(folder, None).get(source, ORIN)
    assert holds(folder, NANO)
    assert not holds(folder, ORIN)


def test_an_unwritable_cache_is_logged_once_and_does_not_prevent_compilation(
    compiler: Compiler, source: Source, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    cubins = Cubins(blocked / "cache", compiler)
    with caplog.at_level(logging.WARNING):
        assert all(cubins.get(source, each).startswith(b"\x7fELF") for each in (NANO, ORIN))
    assert caplog.messages == [f"compiled kernels cannot be stored in {blocked}/cache: Not a directory"]


def test_compiling_ahead_into_an_unwritable_folder_is_an_error(
    compiler: Compiler, source: Source, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(CompilerError, match=f"^compiled kernels cannot be stored in {blocked}/cache: Not a directory$"):
        Cubins(blocked / "cache", compiler).keep(source, NANO)


def test_kernels_compiled_ahead_are_stored_once(compiler: Compiler, source: Source, folder: Path) -> None:
    counted = Counted(compiler)
    for _ in range(2):
        Cubins(folder, counted).keep(source, NANO)
    assert counted.compiled == 1
    assert Cubins(folder, None).get(source, NANO) == compiler.compile(source, NANO)


def test_cubins_are_readable_by_other_users(compiler: Compiler, source: Source, folder: Path) -> None:
    Cubins(folder, compiler).keep(source, NANO)
    (path,) = (folder / "sm_53").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_several_processes_may_fill_one_folder(compiler: Compiler, source: Source, folder: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from edgemeta.kernels.cuda.compile.cache import Cubins\n"
        "from edgemeta.kernels.cuda.compile.compiler import wheel_compiler\n"
        "from edgemeta.kernels.cuda.plan.launch_plan import Source\n"
        "from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES\n"
        "cubins = Cubins(Path(sys.argv[1]), wheel_compiler())\n"
        "source = Source(sys.argv[2], 'kernel', (('SIZE', 2),))\n"
        "print(len({cubins.get(source, ARCHITECTURES[name]) for name in ('sm_53', 'sm_62') * 3}))\n"
    )
    command = [sys.executable, "-c", program, str(folder), source.path]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate(timeout=100)[0].strip() for process in running] == ["2"] * 3
    assert [len(list((folder / name).iterdir())) for name in ("sm_53", "sm_62")] == [1, 1], "a temporary file was left"
    assert Cubins(folder, None).get(source, NANO) == compiler.compile(source, NANO)


def test_the_texts_of_a_kernel_include_all_its_headers(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text('#include "b.cuh"\n  #  include "c.cuh"\n#include "include/device.cuh"\n')
    (tmp_path / "b.cuh").write_text('#pragma once\n#include "c.cuh"\n')
    (tmp_path / "c.cuh").write_text('#include "b.cuh"\n')
    assert sorted(path.name for path in texts(tmp_path / "a.cu")) == ["a.cu", "b.cuh", "c.cuh", "device.cuh"]


def test_the_digest_does_not_depend_on_the_package_folder(write) -> None:
    text = 'extern "C" __global__ void kernel(int* out) { *out = SIZE; }'
    one, other = write(text, name="one.cu", SIZE=2), write(text, name="other.cu", SIZE=2)
    assert digest(one, NANO) == digest(other, NANO) != digest(one, ORIN)


def test_the_default_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EDGEMETA_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert default_folder() == tmp_path / "own"
    monkeypatch.delenv("EDGEMETA_CACHE")
    assert default_folder() == tmp_path / "xdg" / "edgemeta"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_folder() == tmp_path / "home" / ".cache" / "edgemeta"
