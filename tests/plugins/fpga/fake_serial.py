"""A board without a board: the serial line's other end at a pseudo terminal, which does to a frame what a test says."""

import os
import select
import threading
import tty
from types import TracebackType

import numpy as np

from edgemeta.model import reference
from edgemeta.model.graph import Model
from edgemeta.plugins.fpga.serial_frames import (
    ANSWER,
    GREETING,
    HELLO,
    IMAGE,
    REFUSAL,
    Frame,
    FrameReader,
    Greeting,
    encode,
    seed_of,
)

CREDITS = 2


class FakeSerialBoard:
    """Answers with the reference's logits while the `with` block lasts.

    faults: for each image that arrives what happens instead, as long as there are some: "refuse", "silence", "noise"
    before the answer, "damage" to a bit of it, "number" of another image, "cut" cable, "other" network from now on.
    deaf: hellos that are not answered. says: for every byte, instead of anything else.
    """

    def __init__(self, model: Model, faults: tuple[str, ...] = (), deaf: int = 0, says: bytes = b"") -> None:
        self._model, self._faults, self._deaf, self._says = model, list(faults), deaf, says
        self.digest = bytes.fromhex(model.digest)
        self.version = 1
        self.hellos = self.images = self.most = 0

    def __enter__(self) -> "FakeSerialBoard":
        self._line, self._host = os.openpty()
        tty.setraw(self._host)
        self.port = os.ttyname(self._host)
        self._end = os.pipe()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.write(self._end[1], b"x")
        self._thread.join()
        for file in (*self._end, *((self._line, self._host) if self._line >= 0 else ())):
            os.close(file)

    def _serve(self) -> None:
        shape = self._model.input.shape
        reader = FrameReader({HELLO: (0, 0), IMAGE: (int(np.prod(shape)), seed_of(self.digest))})
        while self._line >= 0 and self._end[0] not in select.select([self._line, self._end[0]], [], [])[0]:
            came = os.read(self._line, 4096)
            if self._says:
                os.write(self._line, self._says * len(came))
                continue
            found = list(reader.feed(came))
            self.most = max(self.most, sum(frame.kind == IMAGE for frame in found))
            for frame in found:
                if self._line >= 0:
                    self._hello(frame.number) if frame.kind == HELLO else self._image(frame)

    def _hello(self, number: int) -> None:
        self.hellos += 1
        if self.hellos > self._deaf:
            out = int(np.prod(self._model.output_types[0].shape)) * 4
            greeting = Greeting(self.version, CREDITS, int(np.prod(self._model.input.shape)), out, self.digest)
            os.write(self._line, encode(Frame(GREETING, number, greeting.payload())))

    def _image(self, frame: Frame) -> None:
        self.images += 1
        fault = self._faults.pop(0) if self._faults else ""
        image = np.frombuffer(frame.payload, np.int8).reshape(1, *self._model.input.shape)
        number = (frame.number + (fault == "number")) % 256
        logits = reference.run(self._model, image)[0].astype("<i4").tobytes()
        answer = bytearray(encode(Frame(ANSWER, number, logits), seed_of(self.digest)))
        if fault == "cut":
            os.close(self._line)
            os.close(self._host)
            self._line = -1
        elif fault in ("refuse", "other"):
            self.digest = self.digest if fault == "refuse" else bytes(32)
            os.write(self._line, encode(Frame(REFUSAL, frame.number, b"")))
        elif fault != "silence":
            answer[-3] ^= 16 if fault == "damage" else 0
            os.write(self._line, (b"EDGA noise" if fault == "noise" else b"") + answer)
