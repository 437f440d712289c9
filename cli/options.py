"""Arguments and output shared by several commands."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from edgemeta.cli.completion import all_model_names, backend_words, model_names
from edgemeta.model.address import MARK, Address
from edgemeta.model.atomic_write import prepare_output
from edgemeta.model.file import parse
from edgemeta.model.graph import Model
from edgemeta.model.small_file import is_file
from edgemeta.plugins.api import Session
from edgemeta.plugins.compile import compile_model
from edgemeta.plugins.registry import choose

F = TypeVar("F", bound=Callable[..., Any])

JSON = "Print one JSON object instead of text"
json_option = click.option("--json", "as_json", is_flag=True, help=f"{JSON}.")
model_argument = click.argument("model_name", metavar="MODEL", shell_complete=model_names)
any_model_argument = click.argument("model_name", metavar="MODEL", shell_complete=all_model_names)
"""Of an integer or a float model."""
data_option = click.option(
    "--data",
    "data_path",
    type=click.Path(),
    required=True,
    metavar="PATH",
    help="Labelled images: a folder of pictures for each class, .npz, or the official CIFAR-10 files.",
)


def backend_options(command: F) -> F:
    """Add --backend, --threads and --isa to a command."""
    backend = click.option(
        "--backend",
        default="auto",
        show_default=True,
        help="reference, cpu, … (edgemeta backends).",
        shell_complete=backend_words,
    )
    threads = click.option("--threads", type=click.IntRange(1, 256), help="Worker threads of the backend.")
    isa = click.option(
        "--isa",
        help="Force the instruction set of cpu or neon: portable; avx2, avxvnni, avx512vnni; neon, dotprod, i8mm.",
    )
    return backend(threads(isa(command)))


def json_of(keys: str) -> Callable[[F], F]:
    """The option `--json` of a command whose object has these keys."""
    return click.option("--json", "as_json", is_flag=True, help=f"{JSON}: {keys}.")


def writes_files(*outputs: str) -> Callable[[F], F]:
    """Prepare the output files of a command, its parameters of these names; refuse one that is an input, too."""

    def decorate(command: F) -> F:
        @wraps(command)
        def checked(**given: Any) -> Any:
            for name in outputs:
                for other, value in given.items():
                    for each in value if isinstance(value, tuple) else (value,):
                        if other != name and _same_file(given[name], each):
                            raise click.UsageError(f"the output {given[name]} is an input, too, and would replace it")
                if given[name] is not None:
                    prepare_output(given[name])
            return command(**given)

        return cast("F", checked)

    return decorate


def _same_file(output: object, other: object) -> bool:
    """Whether two arguments name the same existing file; a model's name or path may have a digest."""
    if not isinstance(output, str | Path) or not isinstance(other, str | Path):
        return False
    paths = [str(each).partition(MARK)[0] for each in (output, other)]
    return all(map(is_file, paths)) and Path(paths[0]).samefile(paths[1])


def load_model(name: str) -> Model:
    """Read a shipped model by name or any model by path, each with an optional digest. Raises ModelError."""
    file, data = Address.parse(name).read()
    return parse(data, file)


def open_session(model: Model, backend: str, threads: int | None, isa: str | None) -> tuple[str, Session]:
    """Compile a model on a backend, by name or "auto"; return its name and the session. Raises BackendError."""
    chosen = choose(backend)
    options = {key: value for key, value in (("threads", threads), ("isa", isa)) if value is not None}
    return chosen.name, compile_model(model, chosen, options)


def remark(sentence: str) -> None:
    """Print a sentence on standard error, in place of a progress bar's line if there is one."""
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""
    click.echo(f"{clear}edgemeta: {sentence}", err=True)


def report(as_json: bool, values: Mapping[str, object], lines: Iterable[str]) -> None:
    """Print a command's result: one JSON object, or lines of text."""
    if as_json:
        click.echo(json.dumps(values))
    else:
        for line in lines:
            click.echo(line)
