"""A network on a device, real or simulated, as a backend session."""

import math
import time
from typing import Any, Protocol

from numpy.typing import NDArray

from edgemeta.kernels.fpga.generate.network import FpgaError
from edgemeta.kernels.fpga.generate.registers import DIGEST, EDGM, ERRORS, IDENTITY, IN_WORDS, OUT_WORDS
from edgemeta.model.graph import Model
from edgemeta.plugins.api import BackendError, Batch, Outputs, SessionLostError
from edgemeta.plugins.session import check_batch

NAME = "fpga"


class Device(Protocol):
    """What a session needs of a transport."""

    def run(self, batch: Batch, *, deadline: float) -> NDArray[Any]:
        """Outputs [N, H, W, C] of a batch. deadline: `time.monotonic` at which it gives up, with FpgaError."""
        ...

    def read(self, address: int) -> int:
        """A register."""
        ...

    def close(self) -> None:
        """Free the device; a second call does nothing."""
        ...


def check_device(device: Device, model: Model) -> None:
    """Raise BackendError unless the device holds an accelerator, made for this very model file."""
    if device.read(IDENTITY) != EDGM:
        raise BackendError(f"backend {NAME}: the device is no edgemeta accelerator: its identity is wrong")
    found = b"".join(device.read(DIGEST + 4 * part).to_bytes(4, "little") for part in range(8)).hex()
    if found != (model.digest or "00" * 32):
        raise BackendError(
            f"backend {NAME}: the netlist was made for the model file {found[:12]}..., this one is "
            f"{model.digest[:12] or 'of no file'}...: build it anew with edgemeta fpga build"
        )
    words = device.read(IN_WORDS), device.read(OUT_WORDS)
    needed = math.prod(model.input.shape), math.prod(model.output_types[0].shape)
    if words != needed:
        raise BackendError(
            f"backend {NAME}: the accelerator reads {words[0]} and writes {words[1]} words per image, the model has "
            f"{needed[0]} and {needed[1]}"
        )


class FpgaSession:
    """Owns a device. A device that hangs or reports an error ends the session: it is closed at once."""

    def __init__(self, model: Model, device: Device, timeout: float) -> None:
        self._model = model
        self._device = device
        self._timeout = timeout
        self._closed: str | None = None
        self._refusal: type[BackendError] = BackendError

    def run(self, batch: Batch) -> Outputs:
        """As `Session.run`; a new array each time. Raises SessionLostError for a device that hangs."""
        if self._closed is not None:
            raise self._refusal(self._closed)
        check_batch(NAME, self._model, batch)
        try:
            outputs = self._device.run(batch, deadline=time.monotonic() + self._timeout)
        except FpgaError as error:
            raise self._lost(str(error)) from error
        errors = self._device.read(ERRORS)
        if errors:
            raise self._lost(f"the device reports errors {errors:#x}: images and their ends do not agree")
        return (outputs,)

    def close(self) -> None:
        """As `Session.close`."""
        if self._closed is None:
            self._closed = f"backend {NAME}: the session is closed"
            self._device.close()

    def _lost(self, reason: str) -> SessionLostError:
        self._closed, self._refusal = f"backend {NAME}: {reason}; the session is closed", SessionLostError
        self._device.close()
        return SessionLostError(f"backend {NAME}: {reason}")
