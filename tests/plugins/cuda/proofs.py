"""What is proved of a session on any device, an emulated one or a GPU: the same code with more or fewer images."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np

from edgemeta.model.graph import Model
from edgemeta.plugins.api import Backend, Batch, Session
from edgemeta.plugins.measure import verify
from edgemeta.plugins.preprocess import make_preprocessor
from edgemeta.toolchain.data.dataset import CIFAR10_LABELS, load_dataset


def mismatches(backend: Backend, model: Model, images: Batch, batch: int, **options: object) -> int:
    """Images, run in batches of `batch`, with a logit that is not the reference's."""
    parts = [images[start : start + batch] for start in range(0, len(images), batch)]
    with closing(backend.compile(model, options)) as session:
        done, wrong = verify(session, model, parts, len(images), lambda done, total: None)
    assert done == len(images)
    return wrong


def first_images(model: Model, data: Path, count: int) -> Batch:
    """The first `count` CIFAR-10 test images as the model's input, the way a camera frame goes."""
    images = load_dataset(data / "cifar10" / "test.npz", labels=CIFAR10_LABELS).x[:count]
    prepare = make_preprocessor(model, images.shape[1:])
    return np.concatenate([prepare(np.ascontiguousarray(image[..., ::-1])).copy() for image in images])


def grown(opened: Callable[[], Session], image: Batch, cycles: int, held: Callable[[], int]) -> int:
    """Growth of device memory over `cycles` sessions, opened, run and closed, compared with the first two."""

    def cycle(times: int) -> None:
        for _ in range(times):
            with closing(opened()) as session:
                session.run(image)

    cycle(2)
    before = held()
    cycle(cycles)
    return held() - before


def batches_of_all_sizes(images: Batch) -> Iterator[Batch]:
    """Batches that grow, shrink and repeat."""
    for size in (1, 2, 5, 3, 1, 1, len(images)):
        yield images[:size]
        yield images[len(images) - size :]
