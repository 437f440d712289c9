"""The tables of commands and of their options in docs/commands.md, from the commands themselves."""

from collections.abc import Iterator

import click

from edgemeta.cli.main import edgemeta
from edgemeta.cli.options import JSON

HEAD = ("| option | meaning | default |", "|---|---|---|")
PAGES = {
    "backends": "backends.md",
    "bench": "cpu-kernels.md#measured-forms",
    "cameras": "configuration.md#sources",
    "check": "configuration.md",
    "classify": "#predict",
    "collect": "#collect",
    "config migrate": "configuration.md#former-names",
    "demo": "demo.md",
    "doctor": "boards.md",
    "eval": "quantization.md#figures",
    "export": "import.md#export",
    "fleet forget": "fleet.md#look",
    "fleet list": "fleet.md#look",
    "fleet rollout": "fleet.md#give-a-model-to-devices",
    "fleet set": "fleet.md#share-config-values",
    "fleet undo": "fleet.md#give-a-model-to-devices",
    "fpga build": "fpga.md#a-bitstream",
    "fpga report": "fpga.md#figures",
    "import": "import.md",
    "kernels build": "jetson.md#how-kernels-are-compiled",
    "kernels report": "kernels.md#what-it-costs",
    "model calibrate": "unknown.md#scores-of-a-detection",
    "model get": "known-networks.md",
    "model key": "operations.md#signed-models",
    "model reject": "unknown.md",
    "model sign": "operations.md#signed-models",
    "predict": "#predict",
    "quantize": "quantization.md",
    "run": "configuration.md",
    "scenes": "detection.md#train-yolov3-tiny",
    "search": "search.md",
    "simulate eval": "simulator.md#the-integers-of-a-device",
    "simulate export": "search.md#within-a-budget",
    "simulate train": "simulator.md#train-from-a-file",
    "teach": "teach.md",
    "train": "training.md",
    "verify": "backends.md",
}
"""Where a command is explained; others need no more than their help."""


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, with its words, such as "model info", in alphabetical order."""
    yield from _below(edgemeta, "")


def _below(group: click.Group, prefix: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _below(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def purposes() -> str:
    """Every command with its purpose and its page, as Markdown."""
    rows = (
        f"| `edgemeta {words}` | {command.get_short_help_str(200)} | {_link(PAGES.get(words, ''))} |"
        for words, command in commands()
    )
    return "\n".join(("| command | purpose | more |", "|---|---|---|", *rows))


def _link(page: str) -> str:
    return f"[{page.partition('.md')[0].strip('#')}]({page})" if page else ""


def options_of(command: click.Command) -> list[click.Option]:
    """The options that a command's help shows, in their order, but for a `--json` that says nothing of its keys."""
    options = (each for each in command.params if isinstance(each, click.Option) and not each.hidden)
    return [each for each in options if each.opts != ["--json"] or each.help != f"{JSON}."]


def section(words: str, command: click.Command) -> str:
    """The options of a command as Markdown: a heading and a table."""
    rows = (f"| {name} | {meaning} | {default} |" for name, meaning, default in map(_cells, options_of(command)))
    return "\n".join((f"### edgemeta {words}", "", *HEAD, *rows, ""))


def _cells(option: click.Option) -> tuple[str, str, str]:
    name, meaning, default = (text.replace("|", "\\|") for text in (_name(option), _meaning(option), _default(option)))
    return f"`{name}`", meaning, default


def sections() -> str:
    """The options of all commands that have some."""
    parts = (section(words, command) for words, command in commands() if options_of(command) and words != "classify")
    return "\n".join(parts)


def _name(option: click.Option) -> str:
    names = ", ".join(option.opts)
    if option.secondary_opts:
        return f"{names} / {', '.join(option.secondary_opts)}"
    if option.is_flag or option.count:
        return names
    return f"{names} {_values(option)}"


def _values(option: click.Option) -> str:
    if option.metavar is not None:
        return option.metavar
    if isinstance(option.type, click.Choice):
        return "|".join(map(str, option.type.choices))
    return {"integer": "N", "integer range": "N", "float": "X", "float range": "X"}.get(option.type.name, "TEXT")


def _meaning(option: click.Option) -> str:
    """The help text, on one line, without the default that some texts end with."""
    text = " ".join((option.help or "").split())
    return text.partition("[default: ")[0].strip()


def _default(option: click.Option) -> str:
    if option.required:
        return "required"
    _, mark, stated = (option.help or "").partition("[default: ")
    if mark:
        return " ".join(stated.split()).removesuffix("]")
    if option.is_flag or option.default is None or not isinstance(option.default, str | int | float):
        return ""
    return f"`{option.default}`"
