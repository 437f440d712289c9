"""What the rule takes for each layer that popcount could run, and by which predicted times."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from edgemeta.kernels.cuda.lowering import FUSIONS, tensors_of
from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.popc import launch as popc
from edgemeta.kernels.lowering.fusion import fuse
from edgemeta.model.graph import Model
from edgemeta_proof.machine_code.devices import DEVICES


@dataclass(frozen=True)
class PopcChoice:
    """layers: of a step. popc_us, others_us: estimated from the tiles; others_us is None where nothing predicts it."""

    layers: tuple[str, ...]
    popc_us: float
    others_us: float | None
    is_taken: bool

    def as_json(self) -> dict[str, object]:
        """As `edgemeta kernels report --json` prints it."""
        others = None if self.others_us is None else round(self.others_us, 1)
        return {
            "layers": list(self.layers),
            "popc_us": round(self.popc_us, 1),
            "others_us": others,
            "is_taken": self.is_taken,
        }

    @property
    def description(self) -> str:
        """One sentence."""
        others = "no estimate" if self.others_us is None else f"{self.others_us:.1f} us"
        verdict = "popcount is taken" if self.is_taken else "popcount is not taken"
        return f"{'+'.join(self.layers)}: popcount {self.popc_us:.1f} us, other kernels {others}: {verdict}."


def choices_of(model: Model, architecture: Architecture) -> Iterator[PopcChoice]:
    """Of every step whose weights have bit planes; none for devices without a description."""
    if architecture.name not in DEVICES:
        return
    tensors, mhz = tensors_of(model), DEVICES[architecture.name].clock_mhz
    for step in fuse(model, FUSIONS):
        ours = popc.predicted_clocks(step, tensors, architecture)
        if ours < inf:
            others = popc.others_clocks(step, tensors, architecture)
            yield PopcChoice(
                tuple(layer.name for layer in step.layers),
                ours / mhz,
                None if others == inf else others / mhz,
                bool(list(popc.candidates(step, tensors, architecture))),
            )
