"""Texts of errors, the same for configs and commands."""

from collections.abc import Mapping

from pydantic_core import ErrorDetails

from edgemeta.daemon.config.shown_text import without_addresses
from edgemeta.model.errors import EdgemetaError
from edgemeta.model.small_file import shortened

_EXPECTED = {
    "bool_type": "true or false",
    "dict_type": "a mapping (`key: value`)",
    "finite_number": "a finite number",
    "float_type": "a number",
    "int_type": "a whole number",
    "list_type": "a list",
    "model_type": "a mapping (`key: value`)",
    "missing": "this key to be given",
    "string_type": "text",
    "string_unicode": "Unicode text",
    "tuple_type": "a list",
}

_BOUNDS = {
    "greater_than": "more than",
    "greater_than_equal": "at least",
    "less_than": "less than",
    "less_than_equal": "at most",
}


def reason_of(error: BaseException) -> str:
    """Return why something failed, in one sentence without a secret; also for an error that nobody expected."""
    match error:
        case EdgemetaError():
            return str(error)
        case MemoryError():
            return "too little memory"
        case RecursionError():
            return "too deep a nesting"
        case OSError(filename=str(path), strerror=str(reason)):
            return f"{shortened(path)}: {reason}"
        case _:
            return without_addresses(f"{type(error).__name__}: {error}"[:500])


class UnexpectedError(Exception):
    """Stands for an error that nobody expected in a log: it has its traceback, and its text without addresses."""


def for_log(error: BaseException) -> UnexpectedError:
    """Return what of an unexpected error may be logged."""
    return UnexpectedError(reason_of(error)).with_traceback(error.__traceback__)


def expected(detail: ErrorDetails) -> str:
    """Return a description of the expected value."""
    context = detail.get("ctx", {})
    match detail["type"]:
        case "value_error":
            return str(context["error"])
        case "literal_error":
            return str(context["expected"])
        case "string_too_short":
            return f"at least {context['min_length']} character(s)"
        case "string_too_long":
            return f"at most {context['max_length']} characters"
        case "too_long":
            return f"at most {context['max_length']} entries"
        case "too_short":
            return f"at least {context['min_length']} entry"
        case kind if kind in _BOUNDS:
            (bound,) = context.values()
            return f"{_BOUNDS[kind]} {bound:g}"
        case kind:
            return _EXPECTED.get(kind, detail["msg"])


def shown(value: object) -> str:
    """Return a short description of a value, on one line."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return f"the text {value if len(value) <= 60 else value[:57] + '...'!r}"
        case Mapping():
            return "a mapping"
        case list():
            return "a list"
        case _:
            return str(value)[:60]
