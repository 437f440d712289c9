"""The `edgemeta` command: its verbs, and how errors leave it."""

import os
import sys
from importlib import import_module

import click

from edgemeta import __version__
from edgemeta.model.errors import EdgemetaError

_VERBS = {
    "backends": "edgemeta.cli.models:backends",
    "bench": "edgemeta.cli.bench:bench",
    "cameras": "edgemeta.cli.cameras.command:cameras",
    "check": "edgemeta.cli.service:check",
    "classify": "edgemeta.cli.predict:classify",
    "collect": "edgemeta.cli.collecting:collect",
    "config": "edgemeta.cli.migrating:config",
    "demo": "edgemeta.cli.demo:demo",
    "doctor": "edgemeta.cli.doctor.command:doctor",
    "eval": "edgemeta.cli.measure:evaluate",
    "export": "edgemeta.cli.exporting:export",
    "fleet": "edgemeta.cli.fleet.command:fleet",
    "fpga": "edgemeta.cli.fpga:fpga",
    "import": "edgemeta.cli.importing:import_",
    "kernels": "edgemeta.cli.kernels:kernels",
    "model": "edgemeta.cli.models:model",
    "predict": "edgemeta.cli.predict:predict",
    "quantize": "edgemeta.cli.quantizing:quantize",
    "run": "edgemeta.cli.service:run",
    "scenes": "edgemeta.cli.drawing:scenes",
    "search": "edgemeta.cli.searching:search",
    "simulate": "edgemeta.cli.simulating:simulate",
    "teach": "edgemeta.cli.teaching:teach",
    "train": "edgemeta.cli.workshop:train",
    "verify": "edgemeta.cli.measure:verify",
}
"""Command to "module:attribute", imported only when used: `edgemeta check` need not import what `train` needs."""

_ONE_PROCESSOR = ("doctor", "quantize", "search")
"""Commands that share their work among the processors themselves: NumPy's threads would only wait for each other."""


class _Verbs(click.Group):
    """A group that imports each verb on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return None
        if cmd_name in _ONE_PROCESSOR:
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when NumPy is imported
        module, attribute = _VERBS[cmd_name].split(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="edgemeta")
def edgemeta() -> None:
    """Turn cameras into MQTT messages with integer networks, and make those networks.

    \b
    Examples:
      edgemeta demo                              watch it work, nothing to set up
      edgemeta run configs/default.yaml          the service
      edgemeta predict resnet8-cifar10 cat.jpg   one image
    """


def main() -> None:
    """Run the command line; a user's error is one sentence on stderr and a non-zero exit, never a traceback."""
    try:
        edgemeta()
    except EdgemetaError as error:
        click.echo(f"edgemeta: {error}", err=True)
        sys.exit(error.exit_code)
    except MemoryError:
        click.echo("edgemeta: there is too little memory", err=True)
        sys.exit(1)
