"""Cost report: our kernels and the paper's design for the same model, counted in the same way."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from textwrap import wrap

from edgemeta.kernels.cuda.compile.compiler import find_compiler, wheel_compiler
from edgemeta.kernels.cuda.compile.nvrtc import wheel_library
from edgemeta.kernels.cuda.lowering import KERNELS, lower
from edgemeta.kernels.cuda.one_launch.plan import one_cluster, one_launch
from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.launch_plan import LaunchPlan
from edgemeta.model.graph import Model
from edgemeta_proof.baselines.paper.launch import KERNELS as PAPER
from edgemeta_proof.choices import PopcChoice, choices_of
from edgemeta_proof.machine_code.cost import PRODUCTS, Cost, cost
from edgemeta_proof.machine_code.devices import DEVICES

_COLUMNS = 80

Form = Callable[[LaunchPlan], LaunchPlan]


def as_kernels(plan: LaunchPlan) -> LaunchPlan:
    """The plan with a launch for each kernel."""
    return plan


FORMS: Mapping[str, Form] = {"kernels": as_kernels, "network": one_launch, "cluster": one_cluster}
"""Forms of our launches that a report can be made of."""


@dataclass(frozen=True)
class CostReport:
    """The cost of both designs on one architecture, compiled by `compiler`; popcount: what the rule made of it."""

    model: str
    architecture: Architecture
    compiler: str
    own: Cost
    paper_design: Cost
    popcount: tuple[PopcChoice, ...] = ()

    def as_json(self) -> dict[str, object]:
        """The report as one JSON object."""
        device = DEVICES.get(self.architecture.name)
        return {
            "model": self.model,
            "arch": self.architecture.name,
            "compiler": self.compiler,
            "assumptions": list(device.assumptions()) if device else [],
            **self.own.as_json(),
            **({"popcount": [each.as_json() for each in self.popcount]} if self.popcount else {}),
            "paper_design": {"arch": self.architecture.name, **self.paper_design.as_json()},
        }

    def lines(self) -> Iterator[str]:
        """The report as text of at most 80 columns."""
        title = f"{self.model} on {self.architecture.name}, one image; compiled by {self.compiler}"
        yield from wrap(title, _COLUMNS, break_on_hyphens=False)
        yield from _table("our kernels", self.own)
        yield from _table("the paper's design (edgemeta_proof/baselines/paper)", self.paper_design)
        yield ""
        ratio = self.own.warp_instructions / self.paper_design.warp_instructions
        yield f"ours / the paper's: {ratio:.3f} of the warp-instructions"
        device = DEVICES.get(self.architecture.name)
        if device is None:
            yield f"no predicted time for {self.architecture.name}: only {', '.join(DEVICES)} are described"
        else:
            yield from _times(self.own, self.paper_design)
            if self.popcount:
                yield "layers with bit planes, estimated by tile:"
            for choice in self.popcount:
                yield from wrap(choice.description, _COLUMNS, initial_indent="  ", subsequent_indent="    ")
            for each in self.own.launches:
                if each.phases_us:
                    phases = " ".join(f"{time:.1f}" for time in each.phases_us)
                    yield from wrap(f"phases of the one launch, us: {phases}", _COLUMNS)
            for sentence in device.assumptions():
                yield from wrap(sentence, _COLUMNS, initial_indent="  ", subsequent_indent="    ")


def cost_report(model: Model, architecture: Architecture, form: Form = as_kernels) -> CostReport:
    """Count both designs, ours in a form. Raises UnsupportedError, CompilerError and SassError.

    The wheel's compiler is preferred to the machine's own, so that figures are the same everywhere. Layers that the
    paper does not describe use our kernels in both designs.
    """
    compiler = wheel_compiler() if wheel_library() is not None else find_compiler(architecture)
    own = cost(form(lower(model, architecture)), model, compiler)
    theirs = cost(lower(model, architecture, kernels=(*PAPER, *KERNELS)), model, compiler)
    popcount = tuple(choices_of(model, architecture))
    return CostReport(model.name, architecture, str(compiler), own, theirs, popcount)


def _table(title: str, total: Cost) -> Iterator[str]:
    """A row per launch and a total; a name that is too long for its column is on a separate line."""
    names = ["whole network" if e.launch.is_persistent else "+".join(e.launch.layers) for e in total.launches]
    columns = [_column(header, cells) for header, cells in _figures(total)]
    rows = [" ".join(cells) for cells in zip(*columns, strict=True)]
    width = min(max(map(len, names)), _COLUMNS - len(rows[0]) - 3)
    yield from ("", title)
    for name, row in zip(["layers", *names, f"{len(names)} launches"], rows, strict=True):
        if len(name) > width:
            yield f"  {name}"
        yield f"  {name if len(name) <= width else '':<{width}} {row}".rstrip()


def _figures(total: Cost) -> Iterator[tuple[str, list[str]]]:
    """A header, a cell per launch and one for the total; products and times that no launch has are omitted."""
    launches = [each.launch for each in total.launches]
    runs = [each.run for each in total.launches]
    moved = [each.read_bytes + each.written_bytes for each in runs]
    yield "kernel", [*(each.source.path.removesuffix("/kernel.cu").removesuffix(".cu") for each in launches), ""]
    yield "blocks", [*(str(prod(each.grid)) for each in launches), ""]
    yield "threads", [*(str(prod(each.block)) for each in launches), ""]
    yield "warp-insn", [f"{count:,}" for count in (*(each.warp_instructions for each in runs), total.warp_instructions)]
    for name, opcode in PRODUCTS.items():
        if total.share(opcode) > 0:
            yield (
                name.upper(),
                [f"{share:.1%}" for share in (*(each.share(opcode) for each in total.launches), total.share(opcode))],
            )
    yield "moved kB", [f"{count / 1000:,.1f}" for count in (*moved, sum(moved))]
    if total.predicted_us:
        busy = [each.busy_us or 0.0 for each in total.launches]
        yield "busy us", [f"{time:.1f}" for time in (*busy, total.predicted_us["busy"])]


def _times(own: Cost, paper_design: Cost) -> Iterator[str]:
    """Predicted times of one image, with and without launch overhead."""
    yield "predicted us, not measured:   ours   the paper's"
    for way, name in (("busy", "busy, no launches"), ("plain", "launched one by one"), ("graph", "as a CUDA graph")):
        yield f"  {name:<26} {own.predicted_us[way]:6.1f}   {paper_design.predicted_us[way]:11.1f}"


def _column(header: str, cells: list[str]) -> list[str]:
    """Cells of equal width, text left-aligned and figures right-aligned."""
    width = max(map(len, (header, *cells)))
    return [f"{cell:<{width}}" if header == "kernel" else f"{cell:>{width}}" for cell in (header, *cells)]
