"""Distillation: weights of a quantized network are trained, in PyTorch, to give the outputs of its float network.

It needs pictures without labels. Tensors keep their types, so the integer network has the same layers and costs the
same. Trained is the last part of the network, which has at most `_NUMBERS` numbers of tensors for a picture, as the
time of a training goes with these: the integers that the part before gives, and the float outputs, are computed once.
The layers before have many positions in a picture, for which `refit.py` suffices.
"""

import hashlib
import math
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgemeta.model.callbacks import Progress
from edgemeta.model.graph import INPUT
from edgemeta.model.layers import TensorType
from edgemeta.model.tasks import compares_channels
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.quantize.calibration import PreparedImages
from edgemeta.toolchain.quantize.folded import Folded
from edgemeta.toolchain.quantize.lower import Lowering
from edgemeta.toolchain.quantize.rounding_network import RoundingNetwork
from edgemeta.toolchain.quantize.run import integer_session, needed
from edgemeta.toolchain.quantize.weights import LayerWeights
from edgemeta.toolchain.torch_network import TorchNetwork, imitation_loss

_NUMBERS = 2_000_000
_BATCH, _TOGETHER = 8, 4
"""Pictures of a step, and that the float network takes at a time."""
_EPOCHS, _STEPS = 3, 300
"""Passes over all pictures; more where these are so few that there would be fewer steps."""
_RATE = 0.005
"""Of Adam at the start, in steps of weights and of what a layer gives."""
_SEED = 2026


def first_trained(builder: Lowering[Folded]) -> int:
    """The number of the first block that is trained."""
    left = _NUMBERS
    for number in reversed(range(len(builder.blocks))):
        left -= math.prod(builder.types[builder.blocks[number].name].shape)
        if left < 0:
            return min(number + 1, len(builder.blocks) - 1)
    return 0


def without(images: PreparedImages, others: Iterable[NDArray[Any]]) -> PreparedImages:
    """The images that are none of the others [1, H, W, C], each once."""
    seen = {_digest(image) for image in others}
    numbers = []
    for number, image in enumerate(images):
        digest = _digest(image)
        if digest not in seen:
            numbers.append(number)
            seen.add(digest)
    return images.take(numbers)


def distilled(
    builder: Lowering[Folded], images: Sequence[PreparedImages], learning: Progress, training: Callable[[], Progress]
) -> LayerWeights:
    """Other weights for a network, trained for these images. Raises QuantizeError where there are too few.

    learning: takes the progress of the float network; training: gives what takes the steps' progress, of all steps.
    """
    weights = builder.policy.weights
    assert isinstance(weights, LayerWeights)
    network = RoundingNetwork(builder, first_trained(builder))
    if len(images[0]) < _BATCH:
        raise QuantizeError(
            f"a distillation has {len(images[0])} pictures that do not judge it, expected at least {_BATCH}"
        )
    lessons = _Lessons(builder, network, images, learning)
    steps, stage = len(lessons) // _BATCH, training()
    epochs = max(_EPOCHS, math.ceil(_STEPS / steps))
    optimizer = torch.optim.Adam(network.parameters())
    for epoch in range(epochs):
        order = np.random.default_rng((_SEED, epoch)).permutation(len(lessons))
        for step in range(steps):
            optimizer.param_groups[0]["lr"] = _RATE * 0.5 * (1 + math.cos(math.pi * (epoch + step / steps) / epochs))
            chosen = np.sort(order[step * _BATCH : (step + 1) * _BATCH])
            loss = lessons.loss(network, chosen)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            stage(epoch * steps + step + 1, epochs * steps)
    trained = weights.copy()
    network.write(trained)
    return trained


class _Lessons:
    """What is learned of each picture: integers of the tensors that the trained part reads, and its float outputs.

    They lie in temporary files, which are deleted with this object.
    """

    def __init__(
        self, builder: Lowering[Folded], network: RoundingNetwork, parts: Sequence[PreparedImages], stage: Progress
    ) -> None:
        model, types = builder.model, builder.types
        self._count, self._compares = sum(map(len, parts)), compares_channels(model.task)
        self._sources = {name: _stored(self._count, types[name], types[name].dtype) for name in network.sources}
        self._outputs = [_stored(self._count, types[name], np.float32) for name in network.outputs]
        after = {block.name: block.after for block in builder.blocks}
        floats, teacher = [after[name] for name in network.outputs], TorchNetwork(model).eval()
        inner = [name for name in network.sources if name != INPUT]
        with ExitStack() as stack:
            session = None
            if inner:
                session = stack.enter_context(closing(integer_session(needed(builder.build(), inner))))
            done = 0
            for images in parts:
                for first in range(0, len(images), _TOGETHER):
                    integers = np.concatenate(list(images.take(range(first, min(first + _TOGETHER, len(images))))))
                    rows = slice(done, done + len(integers))
                    if INPUT in self._sources:
                        self._sources[INPUT][rows] = integers
                    for name, found in zip(inner, session.run(integers) if session else (), strict=True):
                        self._sources[name][rows] = found
                    x = torch.from_numpy(images.real(integers)).permute(0, 3, 1, 2)
                    with torch.no_grad():
                        for kept, wanted in zip(self._outputs, teacher.values(x, floats), strict=True):
                            kept[rows] = self._compared(wanted).permute(0, 2, 3, 1).numpy()
                    done += len(integers)
                    stage(done, self._count)

    def __len__(self) -> int:
        return self._count

    def loss(self, network: RoundingNetwork, chosen: NDArray[np.int64]) -> Tensor:
        """The `imitation_loss` of some pictures, by their numbers."""
        found = network({name: kept[chosen] for name, kept in self._sources.items()})
        wanted = tuple(torch.from_numpy(kept[chosen]).permute(0, 3, 1, 2) for kept in self._outputs)
        return imitation_loss(tuple(map(self._compared, found)), wanted)

    def _compared(self, output: Tensor) -> Tensor:
        """An output [N, C, H, W] as it is compared: less the mean of each picture where channels are compared."""
        return output - output.mean((1, 2, 3), keepdim=True) if self._compares else output


def _stored(count: int, kind: TensorType, dtype: Any) -> NDArray[Any]:
    """Zeros [count, H, W, C] in a temporary file."""
    with tempfile.TemporaryFile() as file:
        return np.memmap(file, dtype, "w+", shape=(count, *kind.shape))


def _digest(image: NDArray[Any]) -> bytes:
    return hashlib.sha256(image.tobytes()).digest()
