"""A file of measured choices: which form each convolution of a model takes on a processor.

JSON: {"choices": [{"sha256": digest of the model file, "isa": instruction set, "processor": its name, "forms": {step:
form}}, ...]}, each combination of the first three once. A program for another one finds no choices in the file.
"""

import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgemeta.kernels.cpu.library import FORMS
from edgemeta.model.atomic_write import write_atomically
from edgemeta.model.errors import EdgemetaError

_KEYS = ("sha256", "isa", "processor")


class FormFileError(EdgemetaError):
    """A file of choices cannot be read or written, in one sentence."""


def processor_name() -> str:
    """The name of this machine's processor, as Linux states it, else its architecture."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name"))
    return next(names, platform.machine())


def chosen_forms(path: Path, sha256: str, isa: str) -> Mapping[str, str]:
    """Step -> form, for a model and an instruction set on this machine; empty if the file has none for them."""
    wanted = (sha256, isa, processor_name())
    matching = (each["forms"] for each in _read(path) if tuple(each[key] for key in _KEYS) == wanted)
    found: Mapping[str, str] = next(matching, {})
    return found


def keep_forms(path: Path, sha256: str, isa: str, forms: Mapping[str, str]) -> None:
    """Write choices into a file, in place of those for the same model, instruction set and processor."""
    key = (sha256, isa, processor_name())
    others = [each for each in _read(path) if tuple(each[name] for name in _KEYS) != key] if path.exists() else []
    record = {"choices": [*others, {**dict(zip(_KEYS, key, strict=True)), "forms": dict(forms)}]}
    try:
        write_atomically(path, (json.dumps(record, indent=2) + "\n").encode())
    except OSError as error:
        raise FormFileError(f"{path}: cannot write: {error.strerror}") from error


def _read(path: Path) -> list[dict[str, Any]]:
    """The checked entries of a file."""
    try:
        record = json.loads(path.read_bytes())
    except OSError as error:
        raise FormFileError(f"{path}: cannot read: {error.strerror}") from error
    except ValueError as error:
        raise FormFileError(f"{path}: is no JSON file of forms: {error}") from error
    choices = record.get("choices") if isinstance(record, dict) else None
    if not isinstance(choices, list):
        raise FormFileError(f"{path}: expected an object with a list 'choices', as bench --layers --save writes it")
    for number, each in enumerate(choices):
        place = f"{path}: choices[{number}]"
        if not isinstance(each, dict) or not all(isinstance(each.get(key), str) for key in _KEYS):
            raise FormFileError(f"{place}: expected the texts {', '.join(_KEYS)}")
        forms = each.get("forms")
        if not isinstance(forms, dict):
            raise FormFileError(f"{place}: expected an object 'forms'")
        for step, form in forms.items():
            if form not in FORMS:
                raise FormFileError(f"{place}: step {step!r} has the form {form!r}, expected one of {', '.join(FORMS)}")
    return choices
