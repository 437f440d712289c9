"""`bench`: latency of a model on a backend, or of one product of matrices of few bits."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Protocol, runtime_checkable

import click
import numpy as np

from edgemeta.cli.completion import model_names
from edgemeta.cli.options import backend_options, json_of, load_model, open_session, report, writes_files
from edgemeta.cli.progress import progress_bar
from edgemeta.kernels.cpu.form_file import keep_forms
from edgemeta.kernels.cpu.gemm import Gemm, measure, multiply_adds_per_us, random_weights, weights_per_us
from edgemeta.kernels.cpu.layer_forms import LayerForms, measure_forms
from edgemeta.kernels.cpu.library import FORMS, ISA_NAMES, LibraryError
from edgemeta.model.errors import EdgemetaError
from edgemeta.model.graph import Model
from edgemeta.plugins.measure import bench as measure_latency

RUNS, SECONDS = 2000, 20
_MOST_ELEMENTS = 1 << 26
"""Limit of a matrix's elements: sums of 8-bit products fit int32, and a mistyped size allocates no gigabytes."""


@runtime_checkable
class _NamesForms(Protocol):
    """A session that knows how each of its steps runs."""

    def forms(self) -> Mapping[str, str]:
        """By the names of its steps."""
        ...


@runtime_checkable
class _WithForms(_NamesForms, Protocol):
    """One that has several forms of a convolution on an instruction set."""

    @property
    def isa(self) -> str:
        """Name of the instruction set."""
        ...


@click.command(short_help="Time one image, or one product of matrices of few bits.")
@click.argument("model_name", metavar="[MODEL]", required=False, shell_complete=model_names)
@backend_options
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    help=f"Timed runs, batch 1.  [default: {RUNS}, of a slow MODEL as many as begin in {SECONDS} s]",
)
@click.option(
    "--paced", type=click.FloatRange(min=0.0), default=0.0, metavar="MS", help="Wait between runs, like a camera."
)
@click.option("--layers", is_flag=True, help="Also time every exact form of each convolution, on cpu and neon.")
@click.option(
    "--save",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="With --layers: keep the fastest forms in FILE, for the option `forms` of the backend.",
)
@click.option("--gemm", metavar="MxNxK", help="Instead of MODEL: activations [M, K] times weights [K, N], on the cpu.")
@click.option("--bits", metavar="W,A", help="With --gemm: bits of weights and activations, 1 to 8.  [default: 8,8]")
@click.option("--form", type=click.Choice(FORMS), help="With --gemm: another form than the fastest.")
@json_of("median_us, p99_us, min_us, stages, forms; with --layers layers")
@writes_files("save")
def bench(
    model_name: str | None,
    backend: str,
    threads: int | None,
    isa: str | None,
    runs: int | None,
    paced: float,
    layers: bool,
    save: Path | None,
    gemm: str | None,
    bits: str | None,
    form: str | None,
    as_json: bool,
) -> None:
    """Time one image from input tensor to logits, in microseconds, after a warm-up.

    The backends cpu, neon and cuda also name the form of each step (docs/cpu-kernels.md). With --layers a table has
    each form that a convolution can take: the time that the planner predicts, as a share of the form `plain`, and the
    least time measured, beside two floors: the form's multiplications at the rate of a product of matrices that lies in
    the first cache, and reading its weights once from the second cache, or if they are more than 512 KB from beyond.
    With --gemm: quantizing the activations, the product and dequantizing the sums, each by itself,
    on one thread; `bytes` are those of the weights in memory.

    \b
    Examples:
      edgemeta bench resnet8-cifar10 --backend cpu --runs 5000
      edgemeta bench resnet8-cifar10 --backend cpu --paced 10 --json
      edgemeta bench resnet8-cifar10 --backend cpu --isa avx2 --layers --runs 300 --save forms.json
      edgemeta bench --gemm 1024x1024x1024 --bits 2,2 --runs 50
    """
    if (model_name is None) == (gemm is None):
        raise EdgemetaError("bench takes either a MODEL or --gemm MxNxK")
    if gemm is not None:
        if threads is not None or paced or backend not in ("auto", "cpu"):
            raise EdgemetaError("bench --gemm runs on the cpu backend, on one thread, without waiting")
        if layers or save is not None:
            raise EdgemetaError("--layers and --save are for a MODEL: bench --gemm has --form")
        if isa is not None and isa not in ISA_NAMES:
            raise EdgemetaError(f"--isa {isa}: expected one of {', '.join(ISA_NAMES)}")
        _bench_gemm(_sizes(gemm), _widths(bits or "8,8"), isa or "auto", form or FORMS[0], runs or RUNS, as_json)
        return
    if bits is not None or form is not None:
        raise EdgemetaError("--bits and --form are for bench --gemm: a model has its own widths")
    if save is not None and not layers:
        raise EdgemetaError("--save is for bench --layers")
    assert model_name is not None
    _bench_model(load_model(model_name), (backend, threads, isa), runs, paced, layers, save, as_json)


def _bench_model(
    model: Model,
    chosen: tuple[str, int | None, str | None],
    runs: int | None,
    paced: float,
    layers: bool,
    save: Path | None,
    as_json: bool,
) -> None:
    """Time a model. chosen: backend, threads and instruction set, as `open_session` takes them."""
    backend_name, session = open_session(model, *chosen)
    with closing(session), progress_bar("bench") as progress:
        seconds = SECONDS if runs is None else math.inf
        timing = measure_latency(session, model, runs or RUNS, paced, progress, seconds)
        forms = dict(session.forms()) if isinstance(session, _NamesForms) else {}
        found: list[LayerForms] = []
        floors: dict[str, tuple[dict[str, float], dict[str, float]]] = {}
        if layers:
            if not isinstance(session, _WithForms):
                raise EdgemetaError(f"bench --layers: backend {backend_name} has no forms, expected cpu or neon")
            found = measure_forms(model, session.isa, chosen[1] or 1, timing.runs, progress)
            rate = multiply_adds_per_us(session.isa) * (chosen[1] or 1)
            near, far = (weights_per_us(session.isa, kilobytes) for kilobytes in (256, 4096))
            floors = {each.step: (each.floors(session.isa, rate), each.reading(near, far)) for each in found}
            if save is not None:
                keep_forms(save, model.digest, session.isa, {each.step: each.fastest for each in found})
    values: dict[str, object] = {
        "median_us": timing.median_us,
        "p99_us": timing.p99_us,
        "min_us": timing.min_us,
        "stages": timing.stages,
        "forms": forms,
        "runs": timing.runs,
        "backend": backend_name,
        "sha256": model.digest,
    }
    lines = [
        f"median {timing.median_us:.1f} us, p99 {timing.p99_us:.1f}, min {timing.min_us:.1f} "
        f"({backend_name}, {timing.runs} runs)"
    ]
    lines += [
        f"  {name:<24} {microseconds:8.1f} us  {forms.get(name, '')}".rstrip()
        for name, microseconds in timing.stages.items()
    ]
    if layers:
        values["layers"] = [_as_record(each, floors[each.step]) for each in found]
        lines += _layer_lines(found, floors)
    report(as_json, values, lines)


def _as_record(layer: LayerForms, floors: Sequence[Mapping[str, float]]) -> dict[str, object]:
    return {
        "step": layer.step,
        "form": layer.chosen,
        "fastest": layer.fastest,
        "bytes": layer.weight_bytes,
        "predicted_of_plain": dict(layer.predicted),
        "multiply_adds": layer.multiply_adds,
        "floor_us": {form: round(microseconds, 2) for form, microseconds in floors[0].items()},
        "reading_us": {form: round(microseconds, 2) for form, microseconds in floors[1].items()},
        "measured_us": {form: round(microseconds, 2) for form, microseconds in layer.measured.items()},
    }


def _layer_lines(layers: Sequence[LayerForms], floors: Mapping[str, Sequence[Mapping[str, float]]]) -> Iterator[str]:
    """A table with a line for each form of each convolution; the form in use is marked."""
    yield f"{'convolution':<26} {'form':<10} {'predicted':>9} {'measured':>9} {'us':>9} {'floor':>9} {'reading':>9}"
    for layer in layers:
        measured = layer.measured
        plain = measured.get("plain")
        for form, microseconds in sorted(measured.items(), key=lambda each: each[1]):
            predicted = f"{layer.predicted[form]:.2f}" if form in layer.predicted else ""
            share = f"{microseconds / plain:.2f}" if plain else ""
            note = "in use" if form == layer.chosen else "fastest" if form == layer.fastest else ""
            floor, reading = (f"{each[form]:.1f}" if form in each else "" for each in floors[layer.step])
            columns = f"{layer.step:<24} {form:<10} {predicted:>9} {share:>9} {microseconds:>9.1f} {floor:>9}"
            columns += f" {reading:>9}"
            yield f"  {columns}  {note}".rstrip()


def _sizes(text: str) -> tuple[int, int, int]:
    """M, N and K."""
    found = re.fullmatch(r"([1-9]\d{0,7})x([1-9]\d{0,7})x([1-9]\d{0,7})", text)
    if found is None:
        raise EdgemetaError(f"--gemm {text}: expected MxNxK, three whole numbers from 1, such as 1024x1024x1024")
    rows, columns, depth = (int(each) for each in found.groups())
    if max(rows * columns, rows * depth, columns * depth) > _MOST_ELEMENTS or depth > 1 << 16:
        raise EdgemetaError(f"--gemm {text}: a matrix has at most {_MOST_ELEMENTS:,} elements and K is at most 65,536")
    return rows, columns, depth


def _widths(text: str) -> tuple[int, int]:
    """Bits of weights and activations."""
    found = re.fullmatch(r"([1-8]),([1-8])", text)
    if found is None:
        raise EdgemetaError(f"--bits {text}: expected W,A, each from 1 to 8, such as 2,4")
    return int(found[1]), int(found[2])


def _bench_gemm(
    sizes: tuple[int, int, int], bits: tuple[int, int], isa: str, form: str, runs: int, as_json: bool
) -> None:
    rows, columns, depth = sizes
    weights = random_weights((columns, depth), bits[0])
    try:
        with closing(Gemm(rows, weights, bits, isa=isa, form=form)) as product:
            stages = measure(product, rows, weights, bits[1], runs)
            chosen, isa = product.form, product.isa
    except LibraryError as error:
        raise EdgemetaError(f"bench --gemm: {error}") from error
    medians = {
        "quantize_us": round(float(np.median(stages.quantize)), 2),
        "gemm_us": round(float(np.median(stages.gemm)), 2),
        "dequantize_us": round(float(np.median(stages.dequantize)), 2),
    }
    values = medians | {
        "bytes": chosen.weight_bytes,
        "gemm_min_us": round(float(stages.gemm.min()), 2),
        "form": chosen.description,
        "isa": isa,
        "runs": runs,
    }
    lines = [
        f"quantize {medians['quantize_us']:.1f} us, gemm {medians['gemm_us']:.1f}, dequantize "
        f"{medians['dequantize_us']:.1f} ({isa}); weights {chosen.weight_bytes:,} bytes",
        f"  {chosen.description}",
    ]
    report(as_json, values, lines)
