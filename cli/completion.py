"""Completion in the shell: names of shipped models, of backends, and files (docs/commands.md, "Completion")."""

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

from edgemeta.model.zoo import float_names, names
from edgemeta.plugins.registry import names as backend_names

Completion = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
"""What click asks for the words that may stand for an unfinished one."""


def _among(words: Callable[[], Iterable[str]], *, or_file: bool) -> Completion:
    def complete(_context: click.Context, _parameter: click.Parameter, unfinished: str) -> list[CompletionItem]:
        # first: in bash this item empties the list, so that files are offered if none of the names fits
        files = [CompletionItem(unfinished, type="file")] if or_file else []
        return [*files, *(CompletionItem(word) for word in words() if word.startswith(unfinished))]

    return complete


model_names = _among(names, or_file=True)
"""Of an integer model: a shipped name or a file."""
float_model_names = _among(float_names, or_file=True)
"""Of a float model."""
all_model_names = _among(lambda: (*names(), *float_names()), or_file=True)
"""Of either."""
known_names = _among(lambda: _known(), or_file=False)
"""Of a network of others."""
backend_words = _among(lambda: ("auto", *backend_names()), or_file=False)


def _known() -> Iterable[str]:
    from edgemeta.model.known.registry import known_networks  # pydantic, which other completions do without

    return known_networks()
