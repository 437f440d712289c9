"""The cost of our kernels for a model, beside the cost of the paper's design for the same model, by the same count."""

from collections.abc import Iterator
from dataclasses import dataclass

from edgemeta.kernels.cuda.compiler import find_compiler, wheel_compiler
from edgemeta.kernels.cuda.cost import PRODUCTS, Cost, LaunchCost, cost
from edgemeta.kernels.cuda.devices import DEVICES
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.nvrtc import wheel_library
from edgemeta.kernels.cuda.paper.launch import KERNELS as PAPER
from edgemeta.kernels.cuda.plan import Architecture
from edgemeta.model.graph import Model


@dataclass(frozen=True)
class Report:
    """Both designs on one architecture, compiled by `compiler`."""

    model: str
    architecture: Architecture
    compiler: str
    own: Cost
    paper_design: Cost

    def as_json(self) -> dict[str, object]:
        """The report as one JSON object."""
        device = DEVICES.get(self.architecture.name)
        return {
            "model": self.model,
            "arch": self.architecture.name,
            "compiler": self.compiler,
            "assumptions": list(device.assumptions()) if device else [],
            **self.own.as_json(),
            "paper_design": {"arch": self.architecture.name, **self.paper_design.as_json()},
        }

    def lines(self) -> Iterator[str]:
        """The report as text."""
        yield f"{self.model} on {self.architecture.name}, one image; compiled by {self.compiler}"
        yield from _table("our kernels", self.own)
        yield from _table("the paper's design (kernels/cuda/paper)", self.paper_design)
        yield ""
        ratio = self.own.warp_instructions / self.paper_design.warp_instructions
        yield f"ours / the paper's: {ratio:.3f} of the warp-instructions"
        device = DEVICES.get(self.architecture.name)
        if device is None:
            yield f"no time is predicted for {self.architecture.name}: only {', '.join(DEVICES)} is described"
        else:
            yield "predicted, not measured:"
            yield from (f"  {sentence}" for sentence in device.assumptions())


def report(model: Model, architecture: Architecture) -> Report:
    """Count both designs. Raises UnsupportedError, CompilerError and SassError.

    The wheel's compiler is preferred to the machine's own, so that figures are the same everywhere.
    """
    compiler = wheel_compiler() if wheel_library() is not None else find_compiler(architecture)
    own = cost(lower(model, architecture), model, compiler)
    theirs = cost(lower(model, architecture, kernels=PAPER), model, compiler)
    return Report(model.name, architecture, str(compiler), own, theirs)


def _table(title: str, total: Cost) -> Iterator[str]:
    width = max(len("+".join(each.launch.layers)) for each in total.launches)
    names = " ".join(f"{name.upper():>6}" for name in PRODUCTS)
    yield ""
    yield title
    yield (
        f"  {'layers':<{width}} {'kernel':<20} {'blocks':>6} {'threads':>7} {'warp-insn':>10} {names} "
        f"{'read B':>10} {'written B':>9} {'us':>7}"
    )
    for each in total.launches:
        yield f"  {'+'.join(each.launch.layers):<{width}} {_row(each)}"
    shares = " ".join(f"{total.share(opcode):>6.1%}" for opcode in PRODUCTS.values())
    read, written = (sum(getattr(each.run, key) for each in total.launches) for key in ("read_bytes", "written_bytes"))
    yield (
        f"  {f'{len(total.launches)} launches':<{width}} {'':<35} {total.warp_instructions:>10,} {shares} "
        f"{read:>10,} {written:>9,} {_time(total.predicted_us)}"
    )


def _row(each: LaunchCost) -> str:
    launch, run = each.launch, each.run
    blocks, threads = launch.grid[0] * launch.grid[1], launch.block[0] * launch.block[1] * launch.block[2]
    shares = " ".join(f"{each.share(opcode):>6.1%}" for opcode in PRODUCTS.values())
    return (
        f"{launch.source.path:<20} {blocks:>6} {threads:>7} {run.warp_instructions:>10,} {shares} "
        f"{run.read_bytes:>10,} {run.written_bytes:>9,} {_time(each.predicted_us)}"
    )


def _time(time: float | None) -> str:
    return f"{'-':>7}" if time is None else f"{time:>7.1f}"
