"""`kernels`: compile the CUDA kernels ahead of time and report their cost."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from edgemeta.cli.completion import model_names
from edgemeta.cli.options import json_option, load_model, report
from edgemeta.cli.progress import progress_bar
from edgemeta.kernels.cuda.compile.cache import Cubins
from edgemeta.kernels.cuda.compile.compiler import Compiler, find_compiler
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.machine_code.execution.words import ExecutionError
from edgemeta.kernels.cuda.machine_code.sass import SassError
from edgemeta.kernels.cuda.one_launch.choice import GRAPH, forms_of, predict, store, stored
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES, Architecture
from edgemeta.kernels.cuda.plan.launch_plan import LaunchPlan, Source, UnsupportedError
from edgemeta.kernels.cuda.preprocess.launch import FRAME_SHAPE, preprocessing_source, with_preprocessing
from edgemeta.kernels.cuda.report import FORMS
from edgemeta.kernels.cuda.report import cost_report as count
from edgemeta.model.graph import Model
from edgemeta.model.zoo import names

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
@json_option
def build(models: tuple[str, ...], architectures: tuple[str, ...], folder: Path | None, as_json: bool) -> None:
    """Compile the kernels of models ahead of time.

    Compiles every kernel that the models need (default: all shipped models), for devices without a compiler. Predicts
    for sm_53, sm_62, sm_87 and sm_90 whether a network is faster as one launch, on sm_90 also as one of a cluster, and
    whether that should preprocess frames, too, which takes two minutes for a network; the cuda backend reads the
    result. Needs pip install 'edgemeta[report]' for that.

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
        sources = list(dict.fromkeys(source for model in loaded for source in _sources(model, architecture)))
        with progress_bar(name) as progress:
            for done, source in enumerate(sources, 1):
                cubins.keep(source, architecture)
                progress(done, len(sources))
        forms += [_form(model, architecture, cubins, compiler) for model in loaded]
        rows.append({"arch": name, "kernels": len(sources), "compiler": str(compiler), "folder": str(cubins.folder)})
    lines = [f"{row['arch']}: {row['kernels']} kernels by {row['compiler']} in {row['folder']}" for row in rows]
    lines += [line for each in forms for line in _sentences(each)]
    report(as_json, {"builds": rows, "forms": forms}, lines)


def _form(model: Model, architecture: Architecture, cubins: Cubins, compiler: Compiler) -> dict[str, object]:
    """The form that the backend will run by predicted time, and why; one launch is then compiled, too.

    If it is one launch, also the form with the preprocessing of frames on the device.
    """
    row: dict[str, object] = {"model": model.name, "arch": architecture.name}
    plan = lower(model, architecture)
    form, chosen = _predicted(plan, cubins, compiler)
    if chosen is plan:
        return {**row, **form}
    framed, _ = _predicted(with_preprocessing(chosen, model, FRAME_SHAPE), cubins, compiler)
    return {**row, **form, "with_preprocessing": framed}


def _predicted(plan: LaunchPlan, cubins: Cubins, compiler: Compiler) -> tuple[dict[str, object], LaunchPlan]:
    """The fastest form of a plan, predicted or read from the folder, and why; one launch is then compiled, too."""
    try:
        forms = forms_of(plan)
        prediction = stored(cubins.folder, forms)
        if prediction is None or not _holds(cubins, forms[prediction.fastest]):
            prediction, builds = predict(forms, compiler)
            for source in forms[prediction.fastest].sources:
                if not cubins.has(source, plan.architecture):
                    cubins.put(source, plan.architecture, builds[source].cubin)
            store(cubins.folder, forms, prediction)
    except (UnsupportedError, SassError, ExecutionError) as error:
        return {"launch": GRAPH, "reason": f"one launch is not predicted: {error}"}, plan
    times = dict(prediction.times_us)
    return {"launch": prediction.fastest, "predicted_us": times, "reason": str(prediction)}, forms[prediction.fastest]


def _holds(cubins: Cubins, plan: LaunchPlan) -> bool:
    return all(cubins.has(source, plan.architecture) for source in plan.sources)


def _sentences(form: Mapping[str, Any]) -> Iterator[str]:
    """What was chosen for a model, as text."""
    yield f"{form['model']} on {form['arch']}: {form['launch']}: {form['reason']}"
    if "with_preprocessing" in form:
        framed, (height, width, _) = form["with_preprocessing"], FRAME_SHAPE
        place = "a launch before it" if framed["launch"] == GRAPH else "within that launch"
        yield f"{form['model']} on {form['arch']}: preprocessing of {width} x {height}: {place}: {framed['reason']}"


def _sources(model: Model, architecture: Architecture) -> Iterator[Source]:
    """Kernels of the network, and the one that preprocesses its frames."""
    yield from lower(model, architecture).sources
    yield preprocessing_source(model, architecture)


@kernels.command("report")
@click.argument("model_name", metavar="[MODEL]", default="resnet8-cifar10", shell_complete=model_names)
@click.option("--arch", "architecture", type=_architecture, default="sm_53", show_default=True, help="GPU generation.")
@click.option(
    "--launch",
    type=click.Choice(list(FORMS)),
    default="kernels",
    show_default=True,
    help="Our kernels one by one, or joined to one launch, whose blocks may be a cluster.",
)
@json_option
def report_cost(model_name: str, architecture: str, launch: str, as_json: bool) -> None:
    """Report the cost of every kernel launch.

    Counts instructions and bytes in the machine code, for our kernels and the paper's design, and predicts the time on
    a Jetson Nano (sm_53). Needs pip install 'edgemeta[cuda-compiler,report]'.

    \b
    Examples:
      edgemeta kernels report --arch sm_53
      edgemeta kernels report mine.safetensors --arch sm_87 --json
      edgemeta kernels report --arch sm_53 --launch network
      edgemeta kernels report --arch sm_90 --launch cluster
    """
    result = count(load_model(model_name), ARCHITECTURES[architecture], FORMS[launch])
    report(as_json, result.as_json(), result.lines())
