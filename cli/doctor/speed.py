"""Speed of ResNet-8 on this machine, beside other runtimes in one process, taking turns, so that a ratio is fair."""

import time
import zipfile
from collections.abc import Callable
from contextlib import closing
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgemeta.cli.doctor.kernels import NETWORKS
from edgemeta.cli.doctor.machine import public_version
from edgemeta.cli.doctor.report import RuntimeSpeed
from edgemeta.cli.doctor.runtimes import Runtime, litert, onnx_runtime
from edgemeta.kernels.cpu.library import best_isa
from edgemeta.model.file import load
from edgemeta.model.graph import Model
from edgemeta.model.zoo import find
from edgemeta.plugins.measure import random_image
from edgemeta.plugins.registry import load as backend_of

MODEL = "resnet8-cifar10"
CALLS = 20
"""Of each runtime, before it is another one's turn."""
LEAST_ROUNDS = 3


class Peer(NamedTuple):
    """A runtime of others: its packages, any of which brings its module, the network's file, and what loads that."""

    name: str
    modules: tuple[str, ...]
    packages: tuple[str, ...]
    suffix: str
    load: Callable[[bytes, Model], Runtime]


PEERS = (
    Peer("LiteRT", ("ai_edge_litert", "tflite_runtime"), ("ai-edge-litert", "tflite-runtime"), "tflite", litert),
    Peer("ONNX Runtime", ("onnxruntime",), ("onnxruntime", "onnxruntime-gpu"), "onnx", onnx_runtime),
)


def installed() -> list[Peer]:
    """Those of PEERS; nothing is imported."""
    return [peer for peer in PEERS if any(find_spec(module) for module in peer.modules)]


def title(peer: Peer | None) -> str:
    """A runtime's name with its version; None is our cpu backend, with its instruction set."""
    if peer is None:
        return f"edgemeta cpu {best_isa()}"
    return f"{peer.name} {next(filter(None, map(public_version, peer.packages)), '')}".rstrip()


def speed(peer: Peer | None, seconds: float) -> RuntimeSpeed:
    """Time about so many seconds; None is our cpu backend alone. May end the process: a runtime may be for another."""
    model = load(find(MODEL))
    image = random_image(model)
    with closing(backend_of("cpu").compile(model, {})) as session:
        runs: list[Callable[[NDArray[Any]], object]] = [session.run]
        if peer is not None:
            with zipfile.ZipFile(NETWORKS) as file:
                runs.append(peer.load(file.read(f"{MODEL}.{peer.suffix}"), model).run)
        ours, *theirs = _take_turns(runs, image, seconds)
    if not theirs:
        return RuntimeSpeed(runtime=title(peer), median_us=ours, ours_us=ours, ratio=None, failure=None)
    ratio = round(ours / theirs[0], 3)
    return RuntimeSpeed(runtime=title(peer), median_us=theirs[0], ours_us=ours, ratio=ratio, failure=None)


def failed(peer: Peer | None, reason: str) -> RuntimeSpeed:
    """One that gave no time."""
    return RuntimeSpeed(runtime=title(peer), median_us=None, ours_us=None, ratio=None, failure=reason)


def _take_turns(runs: list[Callable[[NDArray[Any]], object]], image: NDArray[Any], seconds: float) -> list[float]:
    """Median microseconds of each, after a round that warms up."""
    times: list[list[int]] = [[] for _ in runs]
    until, rounds = time.monotonic() + seconds, 0
    while time.monotonic() < until or rounds <= LEAST_ROUNDS:
        for taken, run in zip(times, runs, strict=True):
            for _ in range(CALLS):
                begin = time.perf_counter_ns()
                run(image)
                taken.append(time.perf_counter_ns() - begin)
        rounds += 1
    return [round(float(np.median(taken[CALLS:])) / 1000, 1) for taken in times]
