"""The options of every command in docs/commands.md, from the commands themselves."""

from collections.abc import Iterator

import click

from edgemeta.cli.main import edgemeta

HEAD = ("| option | meaning | default |", "|---|---|---|")


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


def options_of(command: click.Command) -> list[click.Option]:
    """The options that a command's help shows, in their order, but for `--json`, which nearly all have."""
    options = (each for each in command.params if isinstance(each, click.Option) and not each.hidden)
    return [each for each in options if each.opts != ["--json"]]


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
