"""Our CUDA launches and the paper's on the Jetson Nano, in machine code: what they cost, and how long they would take.

    python benchmarks/cuda_cost.py                             writes results/cuda-cost.{json,md}
    python benchmarks/cuda_cost.py --times [--look-ups RATE]   writes results/cuda-prediction.{json,md}

Counts ResNet-8 as `edgemeta kernels report` does, and the two sides of the paper's table 1 (its Winograd kernel and its
tiled simple convolution, on the three layers that have its sizes), once more with Algorithm 1 in one group where that
makes a difference. Nothing is timed.

--times: predicted times against the paper's measured ones on a Jetson Nano, and of our networks on the described
devices. The paper's design (proof/edgemeta_proof/baselines) is compiled, and its machine code simulated
(machine_code/timing). No constant is adjusted to the times; decision 33 says how one of two published rates was chosen.
As the paper measured: table 1 is one launch of one layer, with data in the L2 cache after 100 runs; table 2 the whole
network from an image on the GPU to the outputs on the CPU, launched one by one, after 500 runs. The copy of the outputs
counts as one more launch by the host. With --look-ups it only prints the paper's figures for another rate of the L1
cache.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from benchmarks.gpu.float_network import float_plan_of
from benchmarks.result_file import write_json, write_markdown
from edgemeta.kernels.cuda.compile.compiler import wheel_compiler
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.one_launch.plan import one_launch
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.plan.launch_plan import LaunchPlan
from edgemeta.model.file import load
from edgemeta.model.float_file import load_float_model
from edgemeta.model.graph import Model
from edgemeta.model.zoo import find
from edgemeta.toolchain.reject.evidence import without_rejection
from edgemeta_proof.baselines.float32.paper import paper_float_plan
from edgemeta_proof.baselines.paper.launch import AS_PRINTED, BASELINE, BASELINE_AS_PRINTED, KERNELS
from edgemeta_proof.machine_code.cost import Cost, LaunchCost, cost
from edgemeta_proof.machine_code.devices import DEVICES, DeviceDescription

COMMAND = "python benchmarks/cuda_cost.py"
NANO = ARCHITECTURES["sm_53"]
FORMS: Mapping[str, Callable[[LaunchPlan], LaunchPlan]] = {"graph": lambda plan: plan, "one launch": one_launch}


# Tables 1 and 2 of Terakura et al., milliseconds on a Jetson Nano; the layers here that have the table's sizes.
TABLE_1 = {"conv1": ("32x32x16", 0.200, 0.261), "conv5": ("16x16x32", 0.203, 0.309), "conv8": ("8x8x64", 0.160, 0.240)}
TABLE_2 = {"int8": 1.083, "float32": 2.369}
BOUND = 0.2


def main() -> None:
    """Count, or predict, and write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", action="store_true", help="predict times instead of counting")
    parser.add_argument("--look-ups", type=float, help="with --times: print the paper's figures for this rate, only")
    options = parser.parse_args()
    if options.times:
        predict(options.look_ups)
    else:
        count()


def resnet8() -> Model:
    """The shipped network, as the paper's without a rule of rejection, which adds three small launches."""
    return without_rejection(load(find("resnet8-cifar10")))


def count() -> None:
    """The counts of ResNet-8 and of table 1."""
    model, compiler = resnet8(), wheel_compiler()
    own = cost(lower(model, NANO), model, compiler)
    paper, baseline, printed, baseline_printed = (
        cost(lower(model, NANO, kernels=kernels), model, compiler)
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
        "arch": NANO.name,
        "compiler": str(compiler),
        "assumptions": list(DEVICES[NANO.name].assumptions()),
        **own.as_json(),
        "paper_design": paper.as_json(),
        "table_1": rows,
        "table_2_paper_us": 1000 * TABLE_2["int8"],
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
        f"| ResNet-8 | {paper.warp_instructions:,} | {paper.predicted_us['busy']:.0f} | {1000 * TABLE_2['int8']:.0f} | "
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
        *(f"- {sentence}" for sentence in DEVICES[NANO.name].assumptions()),
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


def predict(look_ups: float | None) -> None:
    """The times of the paper's launches and of our networks."""
    device = DEVICES[NANO.name]
    if look_ups is not None:
        device = replace(device, generation=replace(device.generation, look_ups=look_ups))
        print(*paper_figures(device), sep="\n")
        return
    figures = paper_figures(device)
    own = [own_row(name, form) for name in DEVICES for form in FORMS]
    reached = sum(abs(figure["ratio"] - 1) <= BOUND for figure in figures)
    values = {
        "compiler": str(wheel_compiler()),
        "paper": figures,
        "within_20_percent": reached,
        "own": own,
        "assumptions": list(device.assumptions()),
    }
    command = f"{COMMAND} --times"
    write_json("cuda-prediction", command, values)
    lines = [
        f"The paper's figures on a Jetson Nano, predicted from the machine code of its design as we wrote it: "
        f"{reached} of {len(figures)} within 20 %. **Nothing here was measured by us.**",
        "",
        "| | measured by the paper, us | predicted, us | ratio |",
        "| --- | ---: | ---: | ---: |",
        *(
            f"| {each['name']} | {each['measured_us']:.0f} | {each['predicted_us']:.0f} | {each['ratio']:.2f} |"
            for each in figures
        ),
        "",
        "Our networks without a rule of rejection, one image, predicted:",
        "",
        "| | device | form | launches | warp-instructions | busy, us | with its launches, us |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: |",
        *(
            f"| {each['network']} | {each['device']} ({each['arch']}) | {each['form']} | {each['launches']} | "
            f"{each['warp_instructions']:,} | {each['busy_us']:.1f} | {each['graph_us']:.1f} |"
            for each in own
        ),
        "",
        "What the predictions for the Nano rest on:",
        "",
        *(f"- {sentence}" for sentence in device.assumptions()),
    ]
    write_markdown("cuda-prediction", command, "\n".join(lines))
    print("\n".join(lines))


def paper_figures(device: DeviceDescription) -> list[dict[str, object]]:
    """The six figures of table 1 and the two of table 2."""
    model = resnet8()
    rows = []
    for way, kernels, column in (("Winograd", KERNELS, 1), ("simple convolution", BASELINE, 2)):
        plan = lower(model, NANO, kernels=kernels)
        for layer, sizes in TABLE_1.items():
            (launch,) = (each for each in plan.launches if layer in each.layers)
            alone = replace(plan, launches=(launch,))
            rows.append(row(f"{way}, {sizes[0]}", 1000 * float(sizes[column]), device.plain_us(busy(alone, device))))
    whole = lower(model, NANO, kernels=KERNELS)
    trained = load_float_model(find("resnet8-cifar10-float"))
    floats = float_plan_of(trained, NANO, paper_float_plan)
    for name, plan in (("int8", whole), ("float32", floats)):
        predicted = device.plain_us(busy(plan, device)) + device.launch_us
        rows.append(row(f"ResNet-8, {name}", 1000 * TABLE_2[name], predicted))
    return rows


def busy(plan: LaunchPlan, device: DeviceDescription) -> Sequence[float]:
    """Microseconds of every launch of a plan."""
    timer, compiler = device.timer(plan), wheel_compiler()
    found = []
    for launch in plan.launches:
        build = compiler.build(launch.source, plan.architecture)
        found.append(timer.clocks(launch, build) / device.clock_mhz)
    return found


def row(name: str, measured_us: float, predicted_us: float) -> dict[str, object]:
    """One figure of the paper."""
    ratio = round(predicted_us / measured_us, 3)
    return {"name": name, "measured_us": measured_us, "predicted_us": round(predicted_us, 1), "ratio": ratio}


def own_row(architecture: str, form: str) -> dict[str, object]:
    """Our ResNet-8 on one device."""
    model = resnet8()
    total = cost(FORMS[form](lower(model, ARCHITECTURES[architecture])), model, wheel_compiler())
    return {
        "network": model.name,
        "device": DEVICES[architecture].name,
        "arch": architecture,
        "form": form,
        "launches": len(total.launches),
        "warp_instructions": total.warp_instructions,
        "busy_us": round(total.predicted_us["busy"], 1),
        "graph_us": round(total.predicted_us["graph"], 1),
    }


if __name__ == "__main__":
    main()
