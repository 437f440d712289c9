"""Cost of CUDA launches on the Jetson Nano, ours and the paper's, counted in machine code; nothing is timed.

    python benchmarks/cuda_cost.py

Counts ResNet-8 as `edgemeta kernels report` does, and the two sides of the paper's table 1 (its Winograd kernel and its
tiled simple convolution, on the three layers that have its sizes), once more with Algorithm 1 in one group where that
makes a difference. Writes results/cuda-cost.{json,md}.
"""

import argparse
from collections.abc import Mapping

from benchmarks.result_file import write_json, write_markdown
from edgemeta.kernels.cuda.compile.compiler import wheel_compiler
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.model.file import load
from edgemeta.model.zoo import find
from edgemeta.toolchain.reject.evidence import without_rejection
from edgemeta_proof.baselines.paper.launch import AS_PRINTED, BASELINE, BASELINE_AS_PRINTED, KERNELS
from edgemeta_proof.machine_code.cost import Cost, LaunchCost, cost
from edgemeta_proof.machine_code.devices import DEVICES

COMMAND = "python benchmarks/cuda_cost.py"
ARCHITECTURE = ARCHITECTURES["sm_53"]

# Tables 1 and 2 of Terakura et al., milliseconds on a Jetson Nano; the layers here that have the table's sizes.
TABLE_1 = {"conv1": ("32x32x16", 0.200, 0.261), "conv5": ("16x16x32", 0.203, 0.309), "conv8": ("8x8x64", 0.160, 0.240)}
TABLE_2 = 1.083


def main() -> None:
    """Count and write both files."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    # As the paper's network, without a rule of rejection, which adds three small launches.
    model, compiler = without_rejection(load(find("resnet8-cifar10"))), wheel_compiler()
    own = cost(lower(model, ARCHITECTURE), model, compiler)
    paper, baseline, printed, baseline_printed = (
        cost(lower(model, ARCHITECTURE, kernels=kernels), model, compiler)
        for kernels in (KERNELS, BASELINE, AS_PRINTED, BASELINE_AS_PRINTED)
    )
    ways = {
        "winograd": paper,
        "winograd, one group": printed,
        "tiled": baseline,
        "tiled, one group": baseline_printed,
    }
    rows = [table_1_row(name, own, ways) for name in TABLE_1]
    values = {
        "arch": ARCHITECTURE.name,
        "compiler": str(compiler),
        "assumptions": list(DEVICES[ARCHITECTURE.name].assumptions()),
        **own.as_json(),
        "paper_design": paper.as_json(),
        "table_1": rows,
        "table_2_paper_us": 1000 * TABLE_2,
    }
    write_json("cuda-cost", COMMAND, values)
    lines = [
        "Jetson Nano (sm_53), one image. Counted: warp-instructions of the machine code. **Predicted, not measured**: "
        "microseconds busy, without any launch. Measured: by the paper, launches included.",
        "",
        "| | counted, paper's design | busy, predicted | measured | counted, ours | busy, predicted |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        *(
            f"| {row['size']}, {way} | {row[way]['warp_instructions']:,} | {row[way]['busy_us']} | "
            f"{row[way]['measured_us']:.0f} | {own_columns(row) if way == 'winograd' else ' | '} |"
            for row in rows
            for way in ways
            if way in row
        ),
        f"| ResNet-8 | {paper.warp_instructions:,} | {paper.predicted_us['busy']:.0f} | {1000 * TABLE_2:.0f} | "
        f"{own.warp_instructions:,} | {own.predicted_us['busy']:.0f} |",
        "",
        "ResNet-8 with its launches, predicted; what a launch costs is a guess:",
        "",
        "| | paper's design | ours |",
        "| --- | ---: | ---: |",
        *(
            f"| {name} | {paper.predicted_us[way]:.0f} | {own.predicted_us[way]:.0f} |"
            for way, name in (
                ("busy", "busy, no launches"),
                ("plain", f"{len(paper.launches)} and {len(own.launches)} launches one by one"),
                ("graph", "as a CUDA graph, the backend's default"),
            )
        ),
        "",
        "What the predictions rest on:",
        "",
        *(f"- {sentence}" for sentence in DEVICES[ARCHITECTURE.name].assumptions()),
    ]
    write_markdown("cuda-cost", COMMAND, "\n".join(lines))
    print("\n".join(lines))


def table_1_row(name: str, own: Cost, ways: Mapping[str, Cost]) -> dict[str, object]:
    """One size of table 1, with the variants whose counts differ; the paper's kernels there add no residual."""
    size, *milliseconds = TABLE_1[name]
    measured = dict(zip(("winograd", "tiled"), milliseconds, strict=True))
    row: dict[str, object] = {"layer": name, "size": size, "own": figures(launch_of(name, own))}
    for way, total in ways.items():
        plain, _, variant = way.partition(",")
        found = figures(launch_of(name, total))
        if not variant or found != figures(launch_of(name, ways[plain])):
            row[way] = {**found, "measured_us": 1000 * measured[plain]}
    return row


def launch_of(name: str, total: Cost) -> LaunchCost:
    """The launch that computes a layer."""
    return next(each for each in total.launches if name in each.launch.layers)


def figures(each: LaunchCost) -> dict[str, object]:
    """Counted and predicted figures of one launch."""
    time = each.busy_us
    return {"warp_instructions": each.run.warp_instructions, "busy_us": None if time is None else round(time)}


def own_columns(row: dict[str, object]) -> str:
    """Our figures for the same layer."""
    own = row["own"]
    return f"{own['warp_instructions']:,} | {own['busy_us']}"


if __name__ == "__main__":
    main()
