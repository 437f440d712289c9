"""Self-test of the kernels: every form on every instruction set of this machine beside the reference, bit for bit.

The networks are in networks.zip (tools/doctor_networks.py writes it): each operator, weights and tensors of few bits,
and the shipped models. Each has inputs and the integers that the reference gives for them.
"""

import os
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from ctypes import c_void_p
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.cli.doctor.report import KernelTest
from edgemeta.kernels.cpu.library import FORMS, best_isa, supported_isas
from edgemeta.kernels.cpu.program import Program
from edgemeta.kernels.lowering.steps import UnsupportedError
from edgemeta.model import reference
from edgemeta.model.file import decode, load
from edgemeta.model.graph import Model
from edgemeta.model.self_test import flat
from edgemeta.model.zoo import find, names
from edgemeta.plugins.api import BackendError, Outputs
from edgemeta.plugins.compile import compile_model
from edgemeta.plugins.registry import load as backend_of

NETWORKS = Path(__file__).with_name("networks.zip")

SAME_LIBRARY = ("neon",)
"""Backends that run the library of another one, whose instruction sets are tested there."""
SIMULATED = ("fpga",)
"""Backends that take minutes for an image where there is no device: `edgemeta verify` tests them."""
QUICK = {"cuda": {"tiles": "rule"}}
"""Options that start sooner."""


@dataclass(frozen=True)
class Variant:
    """One way to run networks; isa and form are None where there is no choice."""

    backend: str
    isa: str | None = None
    form: str | None = None
    threads: int = 1


def variants(available: Sequence[str]) -> list[Variant]:
    """All of this machine, of the backends that can run; the slow reference last."""
    found = []
    if "cpu" in available:
        found = [Variant("cpu", isa, form) for isa in reversed(supported_isas()) for form in FORMS]
        found.insert(1, Variant("cpu", best_isa(), FORMS[0], min(4, os.cpu_count() or 1)))
    others = sorted(set(available) - {"cpu", *SAME_LIBRARY, *SIMULATED}, key=lambda name: (name == "reference", name))
    return [*found, *map(Variant, others)]


@cache
def networks() -> tuple[Model, ...]:
    """All networks, the small ones first."""
    with zipfile.ZipFile(NETWORKS) as file:
        small = [decode(file.read(name)) for name in file.namelist() if name.endswith(".safetensors")]
    return (*small, *(load(find(name)) for name in names()))


def outcome(variant: Variant, until: float) -> KernelTest:
    """Run the networks until a moment of `monotonic`, but at least one, or until the device fails."""
    models, differ, failure = networks(), [], None
    run = unsupported = left = 0
    for number, model in enumerate(models):
        if number > 0 and monotonic() > until:
            left = len(models) - number
            break
        assert model.self_test is not None
        try:
            found = flat(_outputs(variant, model, model.self_test.batch))
        except (BackendError, UnsupportedError) as error:
            if not isinstance(error, UnsupportedError) and not isinstance(error.__cause__, UnsupportedError):
                failure, left = f"{model.name}: {error}", len(models) - number
                break
            unsupported += 1
            continue
        run += 1
        if not np.array_equal(found, model.self_test.expected):
            differ.append(model.name)
    return _test(variant, networks=run, unsupported=unsupported, left=left, differ=differ, failure=failure)


def failed(variant: Variant, reason: str | None) -> KernelTest:
    """The outcome of a test that ended early, or, without a reason, had no time to begin."""
    return _test(variant, left=len(networks()), failure=reason)


def _test(variant: Variant, **values: Any) -> KernelTest:
    nothing: Mapping[str, Any] = {"networks": 0, "unsupported": 0, "left": 0, "differ": [], "failure": None}
    return KernelTest(**{**vars(variant), **nothing, **values})


def _outputs(variant: Variant, model: Model, batch: NDArray[Any]) -> Outputs:
    if variant.backend == "reference":
        return reference.run(model, batch)
    if variant.isa is not None:
        return _by_library(variant, model, batch)
    options = QUICK.get(variant.backend, {})
    with closing(compile_model(model, backend_of(variant.backend), options)) as session:
        return tuple(output.copy() for output in session.run(batch))


def _by_library(variant: Variant, model: Model, batch: NDArray[Any]) -> Outputs:
    outputs = tuple(np.empty((len(batch), *kind.shape), kind.dtype) for kind in model.output_types)
    assert variant.isa is not None
    assert variant.form is not None
    with closing(Program(model, variant.isa, variant.threads, variant.form)) as program:
        addresses = (c_void_p * len(outputs))(*(each.ctypes.data for each in outputs))
        program.run(len(batch), batch.ctypes.data, addresses)
    return outputs
