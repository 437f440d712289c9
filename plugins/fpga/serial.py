"""An accelerator behind a serial line as a device: no driver, no root; frames as rtl/serial.sv says."""

import logging
import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.fpga.generate.network import FpgaError
from edgemeta.kernels.fpga.generate.registers import DIGEST, EDGM, IDENTITY, IN_WORDS, OUT_WORDS
from edgemeta.model.graph import Model
from edgemeta.plugins.api import Batch
from edgemeta.plugins.fpga.serial_frames import (
    ANSWER,
    GREETING,
    HELLO,
    IMAGE,
    OVERHEAD,
    REFUSAL,
    Frame,
    FrameReader,
    Greeting,
    encode,
    from_board,
    seed_of,
)
from edgemeta.plugins.fpga.serial_port import SerialPort

_HELLOS = 4
"""How often a board is greeted; each time with twice the patience."""
_TRIES = 3
"""How often an image is sent before the line counts as unusable."""
_PATIENCE = 4
"""A line that is silent for this part of the time for a batch has lost something."""

_log = logging.getLogger(__name__)


class _DamagedError(Exception):
    """Bytes were lost or changed on the line; the text says what was noticed."""


class SerialDevice:
    """As `session.Device`. Raises FpgaError at once if no board answers.

    timeout: seconds for a batch. Up to the board's credits of images are on their way at a time; what noise damages is
    sent again, which `damaged` counts.
    """

    def __init__(self, model: Model, port: SerialPort, timeout: float) -> None:
        self._port = port
        self._kind = model.output_types[0]
        self._digest = bytes.fromhex(model.digest or "00" * 32)
        self._word_bytes = 4 if self._kind.bits == 32 else 1
        self._image_bytes = int(np.prod(model.input.shape))
        self._answer_bytes = int(np.prod(self._kind.shape)) * self._word_bytes
        self._kinds = from_board(self._answer_bytes, self._digest)
        self._patience = timeout / _PATIENCE
        self._hello = os.urandom(1)[0]  # an answer to an earlier program's hello is none to ours
        self._number = 0
        self.damaged = 0
        self._board = self._greet(0)

    def run(self, batch: Batch, *, deadline: float) -> NDArray[Any]:
        """As `session.Device.run`."""
        outputs = np.empty((len(batch), self._answer_bytes), np.uint8)
        done = tries = 0
        while done < len(batch):
            before = done
            try:
                for answer in self._answers(batch[done:], deadline):
                    outputs[done] = np.frombuffer(answer, np.uint8)
                    done += 1
            except _DamagedError as error:
                tries = 1 if done > before else tries + 1
                self._start_again(str(error), tries)
        words = outputs.view(np.dtype(self._kind.dtype).newbyteorder("<"))
        return words.astype(self._kind.dtype, copy=False).reshape(len(batch), *self._kind.shape)

    def read(self, address: int) -> int:
        """A register, from what the board said of itself; 0 if it said nothing about it."""
        board = self._board
        said = {IDENTITY: EDGM, IN_WORDS: board.in_bytes, OUT_WORDS: board.out_bytes // self._word_bytes}
        if DIGEST <= address < DIGEST + 32:
            return int.from_bytes(board.digest[address - DIGEST :][:4], "little")
        return said.get(address, 0)

    def close(self) -> None:
        """As `session.Device.close`."""
        self._port.close()

    def _answers(self, batch: Batch, deadline: float) -> Iterator[bytes]:
        """Send images, and yield the bytes of their logits in order."""
        given = taken = 0
        to_send = memoryview(b"")
        heard = time.monotonic()
        while taken < len(batch):
            while given < min(len(batch), taken + self._board.credits):
                image = Frame(IMAGE, (self._number + given) % 256, batch[given].tobytes())
                to_send = memoryview(bytes(to_send) + encode(image, seed_of(self._digest)))
                given += 1
            sent, came = self._port.exchange(to_send, min(deadline, heard + self._patience))
            to_send = to_send[sent:]
            now = time.monotonic()
            if now >= deadline:
                raise FpgaError(
                    f"{self._port.path}: {len(batch) - taken} of {len(batch)} images without an answer in time"
                )
            if sent or came:
                heard = now
            elif now >= heard + self._patience:
                raise _DamagedError(f"no answer for {self._patience:g} s")
            for frame in self._reader.feed(came):
                self._check_whole()
                if frame.kind == REFUSAL:
                    raise _DamagedError("the board refused a frame")
                if (frame.kind, frame.number) != (ANSWER, (self._number + taken) % 256):
                    raise _DamagedError("a frame out of order")
                taken += 1
                yield frame.payload
            self._check_whole()
        self._number = (self._number + taken) % 256

    def _check_whole(self) -> None:
        if self._reader.lost:
            raise _DamagedError(f"{self._reader.lost} bytes that are no frame")

    def _start_again(self, noticed: str, tries: int) -> None:
        self.damaged += 1
        text = f"{self._port.path}: the line is disturbed: {noticed}"
        if tries == _TRIES:
            raise FpgaError(f"{text}, {tries} times for the same image")
        _log.warning("%s; images without an answer are sent again (%d times so far)", text, self.damaged)
        board = self._greet(1)
        if board != self._board:
            raise FpgaError(
                f"{self._port.path}: the board holds the model file {board.digest.hex()[:12]}... now, expected "
                f"{self._digest.hex()[:12]}..."
            )

    def _greet(self, first: int) -> Greeting:
        """Reset the board's side and ask what it is; zeros before a hello end a frame of which the board has a part."""
        heard, begin = 0, time.monotonic()
        for attempt in range(first, _HELLOS):
            self._hello = (self._hello + 1) % 256
            self._reader, self._number = FrameReader(self._kinds), 0
            zeros = (self._image_bytes + OVERHEAD) * (1 << attempt >> 1)
            to_send = memoryview(bytes(zeros) + encode(Frame(HELLO, self._hello, b"")))
            share = self._patience * (1 << attempt) / (1 << _HELLOS)
            until = time.monotonic() + share
            while time.monotonic() < until:
                sent, came = self._port.exchange(to_send, until)
                to_send = to_send[sent:]
                until = time.monotonic() + share if sent else until
                heard += len(came)
                for frame in self._reader.feed(came):
                    if (frame.kind, frame.number) == (GREETING, self._hello):
                        self._reader.lost = 0  # what came before belongs to the past
                        return Greeting.of(frame.payload)
        place = f"{self._port.path} at {self._port.baud} baud"
        if heard:
            raise FpgaError(f"{place}: {heard} bytes but no answer of a board: noise, another rate, or another device")
        raise FpgaError(
            f"{place}: no answer within {time.monotonic() - begin:.1f} s: is the board on, and loaded with a bitstream "
            "of edgemeta fpga build?"
        )
