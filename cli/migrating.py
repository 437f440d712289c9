"""`edgemeta config migrate`: a config of an older version in the present form."""

import difflib
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from edgemeta.cli.options import json_of, report
from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.loader import ConfigFile
from edgemeta.daemon.config.migrate import MigrationError, migrated
from edgemeta.model.atomic_write import atomic_file

BACKUP = ".before-migration"
"""What is added to the name of a config for what it was before."""


@click.group()
def config() -> None:
    """Work on config files.

    \b
    Examples:
      edgemeta config migrate /etc/edgemeta/config.yaml
    """


@config.command(short_help="Bring a config of an older version into the present form.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--write", is_flag=True, help=f"Change FILE; what it was is kept as FILE{BACKUP}.")
@json_of("changes (line, former, new), written")
def migrate(file: Path, write: bool, as_json: bool) -> None:
    """Show what an older config FILE is in the present form, as a diff, or --write it.

    Keys that were renamed get their new names, in their place; comments and order stay. Mistakes that remain, such as
    unknown keys, are listed as `edgemeta check` does. Exit codes: 0 the result is valid, 78 it is not.

    \b
    Examples:
      edgemeta config migrate config.yaml
      edgemeta config migrate --write /etc/edgemeta/config.yaml
    """
    before = ConfigFile(file, Config).text
    try:
        after, changes = migrated(before)
    except MigrationError as error:
        raise MigrationError(f"{file}: {error}") from error
    if write and changes:
        _write(file.resolve(), after)
    values = {"changes": [asdict(change) for change in changes], "written": bool(write and changes)}
    report(as_json, values, _lines(file, before, after, written=write))
    remaining = ConfigFile(file, Config, after)
    _, problems = remaining.validate()
    if problems:
        raise remaining.error(problems)


def _lines(file: Path, before: str, after: str, written: bool) -> Iterator[str]:
    if before == after:
        yield f"{file}: nothing to migrate"
        return
    names = (str(file), f"{file} (migrated)")
    yield from difflib.unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="")
    yield f"{file}: written, the file before is {file}{BACKUP}" if written else f"{file}: not changed, without --write"


def _write(file: Path, text: str) -> None:
    """Replace a config at once, with the owner and mode it has; its former content gets another name."""
    backup, old = file.with_name(file.name + BACKUP), file.stat()
    try:
        os.link(file, backup)
        with atomic_file(file, old.st_mode & 0o7777) as new:
            os.fchown(new.fileno(), old.st_uid, old.st_gid)
            new.write(text.encode())
    except FileExistsError as error:
        raise click.ClickException(f"{backup}: exists, expected no backup of an earlier migration") from error
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}, expected a file that can be replaced") from error
