"""Checks the options that a backend is compiled with."""

from collections.abc import Collection, Mapping
from difflib import get_close_matches

from edgemeta.plugins.api import OptionError


def reject_unknown(backend: str, options: Mapping[str, object], known: Collection[str]) -> None:
    """Raise OptionError for an option that is not in `known`."""
    for key in options:
        if key not in known:
            close = get_close_matches(key, known, 1)
            hint = f", did you mean {close[0]}?" if close else ""
            expected = ", ".join(known) or "none"
            raise OptionError(f"backend {backend}: unknown option {key!r}{hint} (known: {expected})")


def whole_number(backend: str, options: Mapping[str, object], key: str, default: int, lo: int, hi: int) -> int:
    """A whole-number option in lo .. hi. Raises OptionError otherwise."""
    value = options.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not lo <= value <= hi:
        raise OptionError(f"backend {backend}: option {key} is {value!r}, expected a whole number from {lo} to {hi}")
    return value


def choice(backend: str, options: Mapping[str, object], key: str, default: str, choices: Collection[str]) -> str:
    """A text option that is one of `choices`. Raises OptionError otherwise."""
    value = options.get(key, default)
    if not isinstance(value, str) or value not in choices:
        raise OptionError(f"backend {backend}: option {key} is {value!r}, expected one of {', '.join(choices)}")
    return value
