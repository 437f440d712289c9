"""One device, opened with a context and a stream."""

from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any

from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES, Architecture
from edgemeta.plugins.cuda.driver import UnavailableError, driver_errors, load

_OLDEST = min(each.number for each in ARCHITECTURES.values())


class DeviceContext:
    """A CUDA context on device `number`, current only inside `with device:`, in any thread.

    So a session can be created, run and closed in different threads. `stream` orders all its work. Raises
    UnavailableError if there is no such device or the kernels do not support its generation, and BackendError if the
    driver refuses a context. `close` destroys the context and everything that was created in it.
    """

    def __init__(self, number: int) -> None:
        self.cuda = load()
        device = find_device(self.cuda, number)
        self.number = number
        self.name: str = device.name()
        self.multiprocessors = int(device.multiprocessor_count)
        self.architecture = architecture_of(device)
        version = self.cuda.get_driver_version()
        self.driver = f"CUDA {version // 1000}.{version % 1000 // 10}"
        with driver_errors(self.cuda, f"opening device {number}"):
            self._context = device.make_context(self.cuda.ctx_flags.SCHED_AUTO)
            try:
                self._stream = self.cuda.Stream()
            except self.cuda.Error:
                self._context.detach()
                raise
            self.cuda.Context.pop()

    @property
    def stream(self) -> Any:
        """The stream that orders the work in this context."""
        return self._stream

    def __enter__(self) -> "DeviceContext":
        self._context.push()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.cuda.Context.pop()

    def works(self) -> bool:
        """Whether the context is usable; after a failed kernel it refuses every call except its destruction."""
        try:
            with self:
                self.cuda.Context.synchronize()
        except self.cuda.Error:
            return False
        return True

    def close(self) -> None:
        """Destroy the context, with the stream and everything else in it."""
        with suppress(self.cuda.Error):  # a driver that has lost the device has also lost the context
            self._context.push()
        with suppress(self.cuda.Error):  # needed even then: PyCUDA aborts if it frees in a context it believes alive
            self._context.detach()
        self._stream = None


def find_device(cuda: Any, number: int) -> Any:
    """PyCUDA's device with that number. Raises UnavailableError if there are fewer."""
    count = cuda.Device.count()
    if number >= count:
        last = count - 1
        raise UnavailableError(f"device {number} does not exist, the last one is {last}")
    return cuda.Device(number)


def architecture_of(device: Any) -> Architecture:
    """Architecture that kernels are compiled for: one of the table, or the nearest older one under the device's name.

    A newer or unlisted generation runs the instructions of the nearest older one, so only its name (the compiler's
    target) and its shared memory differ. Raises UnavailableError for a device older than all in the table.
    """
    major, minor = device.compute_capability()
    number = 100 * major + 10 * minor
    older = [each for each in ARCHITECTURES.values() if each.number <= number]
    if not older:
        oldest = f"{_OLDEST // 100}.{_OLDEST // 10 % 10}"
        raise UnavailableError(f"{device.name()} has compute capability {major}.{minor}, the kernels need {oldest}")
    nearest = max(older, key=lambda each: each.number)
    if nearest.number == number:
        return nearest
    shared = device.max_shared_memory_per_block_optin or device.max_shared_memory_per_block
    return replace(
        nearest, name=f"sm_{major}{minor}", number=number, shared_bytes=min(nearest.shared_bytes, int(shared))
    )
