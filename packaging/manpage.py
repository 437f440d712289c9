"""Print edgemeta's manual page: the `--help` of each command, and the files and exit codes of the Debian package."""

from collections.abc import Iterator

import click

from edgemeta import __version__
from edgemeta.cli.main import edgemeta

FRAME = r"""
.SH EXIT STATUS
.TP
.B 0
Success, or stopped by a signal.
.TP
.B 1
Failure; one sentence on standard error gives the reason.
.TP
.B 2
Wrong usage.
.TP
.B 78
An invalid config.
.SH FILES
.TP
.I /etc/edgemeta/config.yaml
The service's config; \fBedgemeta check\fR validates it.
.TP
.I /etc/edgemeta/environment
Its environment variables, for passwords; read by systemd as root.
.TP
.I /var/lib/edgemeta
The outbox and the last good models.
.TP
.I /usr/local/lib/edgemeta/python3.X
Python packages added by the operator, such as PyCUDA.
.TP
.I /usr/share/doc/edgemeta
Configuration, messages, operation.
.SH SEE ALSO
.BR systemctl (1),
.BR journalctl (1)
"""


def verbs(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    """Return name and help text of every subcommand, in order."""
    if not isinstance(command, click.Group):
        yield context.command_path, command.get_help(context)
        return
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        yield from verbs(below, click.Context(below, info_name=name, parent=context, terminal_width=78))


def verbatim(text: str) -> str:
    """Return text escaped for roff: no escapes, no requests at the start of a line."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").splitlines()
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in lines)


def page() -> str:
    """Return the whole page."""
    context = click.Context(edgemeta, info_name="edgemeta", terminal_width=78)
    summary = (edgemeta.help or "").partition("\n")[0].rstrip(".")
    parts = [
        f'.TH EDGEMETA 1 "" "edgemeta {__version__}" "User Commands"',
        f".SH NAME\nedgemeta \\- {verbatim(summary[0].lower() + summary[1:])}",
        ".SH SYNOPSIS\n.B edgemeta\n.I VERB\n[\\fIOPTION\\fR]...",
        ".SH VERBS",
        *(f".SS {name}\n.nf\n{verbatim(text)}\n.fi" for name, text in verbs(edgemeta, context)),
    ]
    return "\n".join(parts) + FRAME


if __name__ == "__main__":
    print(page(), end="")
