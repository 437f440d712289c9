"""Access to the NVIDIA driver through PyCUDA, loaded on first use, and the texts of its errors.

`pycuda.driver` is passed on as a module of type Any: PyCUDA has no type hints, and it must not be imported before a
user has chosen this backend.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import takewhile
from typing import Any

from edgemeta.plugins.api import BackendError

NAME = "cuda"


class UnavailableError(BackendError):
    """CUDA kernels cannot run on this machine; the text is the reason, without the backend's name."""


def load() -> Any:
    """Import and initialize `pycuda.driver`. Raises UnavailableError without PyCUDA, driver or device."""
    if find_spec("pycuda") is None:
        raise UnavailableError("PyCUDA is not installed (pip install 'edgemeta[cuda]'; docs/jetson.md)")
    try:
        import pycuda.driver as cuda
    except ImportError as error:
        if "libcuda.so" in str(error):
            raise UnavailableError("no NVIDIA driver: libcuda.so.1 cannot be loaded") from error
        raise UnavailableError(f"PyCUDA cannot be loaded: {error}") from error
    try:
        cuda.init()
        devices = cuda.Device.count()
    except cuda.Error as error:
        raise UnavailableError(f"the NVIDIA driver finds no device: {first_line(error)}") from error
    if devices == 0:
        raise UnavailableError("the NVIDIA driver finds no device")
    return cuda


@contextmanager
def driver_errors(cuda: Any, doing: str) -> Iterator[None]:
    """Convert driver errors to BackendError: "backend cuda: out of memory on the device while `doing`: ..."."""
    try:
        yield
    except cuda.Error as error:
        raise driver_error(cuda, error, doing) from error


def driver_error(cuda: Any, error: Exception, doing: str) -> BackendError:
    """BackendError for an error of the driver."""
    return BackendError(f"backend {NAME}: {_kind(cuda, error)} while {doing}: {first_line(error)}")


def first_line(error: Exception) -> str:
    """The driver's error text, such as "cuMemAlloc failed: out of memory".

    PyCUDA appends a log, which is empty or not text if there is none.
    """
    return "".join(takewhile(str.isprintable, str(error))).rstrip(" -")


def _kind(cuda: Any, error: Exception) -> str:
    if isinstance(error, cuda.MemoryError):
        return "out of memory on the device"
    if isinstance(error, cuda.LaunchError):
        return "a kernel failed on the device"
    return "the device or its driver failed"
