"""NVRTC, NVIDIA's runtime compiler, through ctypes: a library of the CUDA toolkit and of a wheel."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_void_p, create_string_buffer
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

from edgemeta.kernels.cuda.compile.nvcc import toolkit_folders
from edgemeta.kernels.cuda.compile.tool import CompilerError, first_error

_FIRST_WITH_CUBINS = (11, 2)
_FIRST_WITH_CACHE = (12, 9)


def toolkit_libraries() -> list[Path]:
    """The libnvrtc of toolkits in the usual folders, if new enough to produce cubins."""
    found = []
    for toolkit in toolkit_folders():
        for folder in (toolkit / "lib64", *sorted(toolkit.glob("targets/*/lib"))):
            found += [path for path in sorted(folder.glob("libnvrtc.so*")) if path.is_file()]
    unique = {path.resolve(): path for path in found}
    return [path for path in unique.values() if _makes_cubins(path)]


def wheel_library() -> Path | None:
    """The libnvrtc of the `nvidia-cuda-nvrtc-cu12` wheel, if it is installed."""
    try:
        spec = find_spec("nvidia.cuda_nvrtc")
    except ModuleNotFoundError:
        return None
    for folder in (spec and spec.submodule_search_locations) or ():
        found = sorted(Path(folder, "lib").glob("libnvrtc.so.*"))
        if found:
            return found[0]
    return None


def _makes_cubins(path: Path) -> bool:
    try:
        return Nvrtc(path, str(path)).release >= _FIRST_WITH_CUBINS
    except OSError:  # of another processor architecture, or broken
        return False


class Nvrtc:
    """One libnvrtc, loaded on first use."""

    def __init__(self, path: Path, origin: str) -> None:
        self.path = path
        self.origin = origin

    @cached_property
    def _library(self) -> ctypes.CDLL:
        library = ctypes.CDLL(str(self.path))
        library.nvrtcGetErrorString.restype = c_char_p
        library.nvrtcCreateProgram.argtypes = [c_void_p, c_char_p, c_char_p, c_int, c_void_p, c_void_p]
        library.nvrtcCompileProgram.argtypes = [c_void_p, c_int, POINTER(c_char_p)]
        return library

    @cached_property
    def release(self) -> tuple[int, int]:
        """Major and minor version of its CUDA release."""
        major, minor = c_int(), c_int()
        self._check(self._library.nvrtcVersion(byref(major), byref(minor)))
        return major.value, minor.value

    @property
    def version(self) -> str:
        """Name and release, such as "nvrtc 12.9"."""
        return "nvrtc {}.{}".format(*self.release)

    @cached_property
    def targets(self) -> frozenset[str]:
        """Architectures that it can target."""
        count = c_int()
        self._check(self._library.nvrtcGetNumSupportedArchs(byref(count)))
        numbers = (c_int * count.value)()
        self._check(self._library.nvrtcGetSupportedArchs(numbers))
        return frozenset(f"sm_{number}" for number in numbers)

    @property
    def _without_its_cache(self) -> list[str]:
        """The option against the cache of CUDA 12.9 and newer, whose hits have no resource report in the log."""
        return ["--no-cache"] if self.release >= _FIRST_WITH_CACHE else []

    def run(self, path: Path, options: list[str]) -> tuple[bytes, str]:
        """Compile a file to a cubin. Raises CompilerError with the first error of the log."""
        with self._compiled(path, options) as (program, log):
            return self._read(program, "CUBIN"), log

    def ptx(self, path: Path, options: list[str]) -> str:
        """The PTX from which a file's cubin is assembled. Raises CompilerError as `run`."""
        with self._compiled(path, options) as (program, _):
            return self._read(program, "PTX").rstrip(b"\0").decode()

    @contextmanager
    def _compiled(self, path: Path, options: list[str]) -> Iterator[tuple[c_void_p, str]]:
        """A compiled NVRTC program and its log."""
        program = c_void_p()
        text, name = path.read_bytes(), str(path).encode()
        self._check(self._library.nvrtcCreateProgram(byref(program), text, name, 0, None, None))
        try:
            given = [*options, *self._without_its_cache]
            words = (c_char_p * len(given))(*(option.encode() for option in given))
            status = self._library.nvrtcCompileProgram(program, len(given), words)
            log = self._read(program, "ProgramLog").rstrip(b"\0").decode("utf-8", "replace")
            if status != 0:
                raise CompilerError(f"{path.parent.name}/{path.name}: {self.version} failed: {first_error(log)}")
            yield program, log
        finally:
            self._check(self._library.nvrtcDestroyProgram(byref(program)))

    def _read(self, program: c_void_p, what: str) -> bytes:
        size = c_size_t()
        self._check(getattr(self._library, f"nvrtcGet{what}Size")(program, byref(size)))
        buffer = create_string_buffer(size.value)
        self._check(getattr(self._library, f"nvrtcGet{what}")(program, buffer))
        return buffer.raw

    def _check(self, status: int) -> None:
        if status != 0:
            reason = self._library.nvrtcGetErrorString(status).decode()
            raise CompilerError(f"{self.path.name} ({self.origin}): {reason}")
