"""`kernels`: compile the CUDA kernels ahead of time and report their cost."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from edgemeta.cli.completion import model_names
from edgemeta.cli.options import json_of, load_model, report
from edgemeta.cli.progress import progress_bar
from edgemeta.kernels.cuda.compile.cache import Cubins
from edgemeta.kernels.cuda.compile.compiler import find_compiler
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.one_launch.plan import GRAPH, NETWORK, ONE_CLUSTER, Forms, forms_of
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES, Architecture
from edgemeta.kernels.cuda.plan.launch_plan import Source
from edgemeta.kernels.cuda.preprocess.launch import preprocessing_source
from edgemeta.kernels.lowering.steps import UnsupportedError
from edgemeta.model.graph import Model
from edgemeta.model.zoo import names
from edgemeta.toolchain.proof import proof_installed

_architecture = click.Choice(list(ARCHITECTURES))


@click.group(short_help="Compile the CUDA kernels and report their cost.")
def kernels() -> None:
    """Compile the CUDA kernels ahead of time and report their cost. Needs no GPU.

    \b
    Examples:
      edgemeta kernels build --arch sm_53
      edgemeta kernels report resnet8-cifar10 --arch sm_53
    """


@kernels.command()
@click.argument("models", metavar="[MODEL]...", nargs=-1, shell_complete=model_names)
@click.option("--arch", "architectures", type=_architecture, multiple=True, required=True, help="GPU generation.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the compiled kernels, instead of the cache.",
)
@json_of("builds, forms")
def build(models: tuple[str, ...], architectures: tuple[str, ...], folder: Path | None, as_json: bool) -> None:
    """Compile the kernels of models ahead of time.

    Compiles every kernel that the models need (default: all shipped models), for devices without a compiler, also as
    one launch of the whole network, on sm_90 as one of a cluster, too, which takes a minute for a network. The cuda
    backend measures on the device which form is faster.

    \b
    Examples:
      edgemeta kernels build --arch sm_53
      edgemeta kernels build mine.safetensors --arch sm_53 --arch sm_87
      edgemeta kernels build --arch sm_53 --folder /var/cache/edgemeta
    """
    loaded = [load_model(name) for name in models or names()]
    rows: list[dict[str, object]] = []
    forms: list[dict[str, object]] = []
    for name in dict.fromkeys(architectures):
        architecture = ARCHITECTURES[name]
        compiler = find_compiler(architecture)
        cubins = Cubins(folder, compiler)
        found = [(model, *_forms(model, architecture)) for model in loaded]
        sources = list(dict.fromkeys(source for model, every, _ in found for source in _sources(model, every)))
        with progress_bar(name) as progress:
            for done, source in enumerate(sources, 1):
                cubins.keep(source, architecture)
                progress(done, len(sources))
        forms += [{"model": m.name, "arch": name, "forms": [*every], "reason": why} for m, every, why in found]
        rows.append({"arch": name, "kernels": len(sources), "compiler": str(compiler), "folder": str(cubins.folder)})
    lines = [f"{row['arch']}: {row['kernels']} kernels by {row['compiler']} in {row['folder']}" for row in rows]
    lines += [f"{each['model']} on {each['arch']}: {_sentence(each)}" for each in forms]
    report(as_json, {"builds": rows, "forms": forms}, lines)


def _sentence(form: Mapping[str, Any]) -> str:
    return f"no form of one launch: {form['reason']}" if form["reason"] else f"as {', '.join(form['forms'])}"


def _forms(model: Model, architecture: Architecture) -> tuple[Forms, str]:
    """The network in every form that it has, and why it has no form of one launch."""
    plan = lower(model, architecture)
    try:
        return forms_of(plan), ""
    except UnsupportedError as error:
        return {GRAPH: plan}, str(error)


def _sources(model: Model, forms: Forms) -> Iterator[Source]:
    """Kernels of the network in all its forms, and the one that preprocesses its frames."""
    for form in forms.values():
        yield from form.sources
    yield preprocessing_source(model, forms[GRAPH].architecture)


@kernels.command("report")
@click.argument("model_name", metavar="[MODEL]", default="resnet8-cifar10", shell_complete=model_names)
@click.option("--arch", "architecture", type=_architecture, default="sm_53", show_default=True, help="GPU generation.")
@click.option(
    "--launch",
    type=click.Choice(["kernels", NETWORK, ONE_CLUSTER]),
    default="kernels",
    show_default=True,
    help="Our kernels one by one, or joined to one launch, whose blocks may be a cluster.",
)
@json_of("arch, launches, warp_instructions, predicted_us, layers, paper_design")
def report_cost(model_name: str, architecture: str, launch: str, as_json: bool) -> None:
    """Report the cost of every kernel launch.

    Counts instructions and bytes in the machine code, for our kernels and the paper's design, and predicts the time on
    a Jetson Nano (sm_53). Needs the distribution edgemeta-proof: pip install 'edgemeta[cuda-compiler,report]', in a
    checkout pip install -e ./proof -e '.[cuda-compiler,report]'.

    \b
    Examples:
      edgemeta kernels report --arch sm_53
      edgemeta kernels report mine.safetensors --arch sm_87 --json
      edgemeta kernels report --arch sm_53 --launch network
      edgemeta kernels report --arch sm_90 --launch cluster
    """
    with proof_installed("kernels report"):
        from edgemeta_proof.report import FORMS, cost_report
    result = cost_report(load_model(model_name), ARCHITECTURES[architecture], FORMS[launch])
    report(as_json, result.as_json(), result.lines())
