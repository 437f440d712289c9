"""`edgemeta doctor`: every probe in a process of its own with a deadline, then the report."""

import sys
from pathlib import Path

import click

from edgemeta.cli.broker import broker_of
from edgemeta.cli.doctor.examine import KERNELS, Asked, examined
from edgemeta.cli.doctor.names import own_names
from edgemeta.cli.doctor.report import Problem
from edgemeta.cli.doctor.text import lines
from edgemeta.cli.progress import progress_bar
from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.loader import ConfigError, ConfigFile
from edgemeta.model.atomic_write import write_atomically
from edgemeta.model.errors import EdgemetaError

STANDARD_OUTPUT = "-"


@click.command(short_help="Look at this machine: what runs, and what is in the way.")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="The service's config: its broker.")
@click.option("--broker", metavar="HOST[:PORT]", help="A broker without encryption and login, instead of a config.")
@click.option("--seconds", type=click.FloatRange(1, 600), default=KERNELS, show_default=True, help="For self-tests.")
@click.option(
    "--json",
    "file",
    type=click.Path(allow_dash=True),
    metavar="FILE|-",
    help="Also write the report without names; - prints nothing else.",
)
def doctor(config: Path | None, broker: str | None, seconds: float, file: str | None) -> None:
    """Look at this machine, its backends, cameras and broker, and say what is in the way.

    Which backends can run; whether every kernel computes what the reference does; speed beside LiteRT and ONNX Runtime
    where these are installed; cameras and decoders; broker, clock, disk, memory, temperature and the service. It takes
    one to two minutes, needs no config, no camera and no rights, and changes nothing.

    Exit status 1 if something is in the way; each such thing has a hint.

    \b
    Examples:
      edgemeta doctor
      edgemeta doctor --config /etc/edgemeta/config.yaml
      edgemeta doctor --broker 192.168.1.10 --json report.json
    """
    if config is not None and broker is not None:
        raise click.UsageError("expected only one of --config, --broker")
    asked = _asked(config, broker)
    with progress_bar("doctor") as progress:
        report = examined(asked, seconds, progress)
    if file != STANDARD_OUTPUT:
        for line in lines(report):
            click.echo(line)
    if file is not None:
        _write(report.model_dump_json(indent=2, context={"names": own_names() | asked.names}), file)
    if not report.ok:
        sys.exit(1)


def _asked(config: Path | None, broker: str | None) -> Asked:
    """What the options name. Raises EdgemetaError for an address that is none."""
    if broker is not None:
        mqtt = broker_of(broker)
        return Asked(mqtt, names=frozenset({mqtt.host}))
    if config is None:
        return Asked()
    try:
        found, mistakes = ConfigFile(config, Config).validate()
    except ConfigError as error:
        return Asked(mistakes=(_mistake(str(error)),))
    wrong = (_mistake(f"{config}: {len(mistakes)} keys are wrong"),) if mistakes else ()
    if found is None:
        return Asked(mistakes=wrong)
    names = filter(None, (found.mqtt.host, found.mqtt.username, found.device))
    return Asked(found.mqtt, found.data_folder, frozenset(names), wrong)


def _mistake(text: str) -> Problem:
    return Problem(part="config", text=text, hint="edgemeta check FILE names each mistake with its line")


def _write(report: str, file: str) -> None:
    if file == STANDARD_OUTPUT:
        click.echo(report)
        return
    try:
        write_atomically(Path(file), f"{report}\n".encode())
    except OSError as error:
        raise EdgemetaError(f"{file}: cannot be written ({error.strerror})") from None
