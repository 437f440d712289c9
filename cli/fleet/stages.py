"""Which devices a rollout reaches, stage by stage. Pure."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from edgemeta.cli.fleet.devices import Device
from edgemeta.daemon.messages.rollouts import lets
from edgemeta.model.errors import EdgemetaError


def sizes(stages: str, devices: int) -> list[int]:
    """Devices after each stage: `1,10%,100%` of 40 devices are 1, 4 and 40; shares are rounded up.

    A stage that adds no device is left out. Raises EdgemetaError.
    """
    found: list[int] = [0]
    last = {"": 0, "%": 0}
    for word in stages.split(","):
        number = re.fullmatch(r"\s*(\d{1,6})(%?)\s*", word)
        if number is None or not int(number[1]) or (number[2] and int(number[1]) > 100):
            raise EdgemetaError(f"--stages {stages}: found {word.strip()!r}, expected stages such as 1,10%,100%")
        value, unit = int(number[1]), number[2]
        if value < last[unit]:
            raise EdgemetaError(f"--stages {stages}: found {word.strip()!r} after more, expected stages that grow")
        last[unit] = value
        count = -(-devices * value // 100) if unit else value
        found.append(max(found[-1], min(count, devices)))
    return list(dict.fromkeys(found[1:]))


def assign(stages: str, devices: Sequence[Device]) -> list[list[str]]:
    """The devices that each stage adds: those that are online first, by name. Raises EdgemetaError."""
    names = [each.name for each in sorted(devices, key=lambda each: (each.online is not True, each.name))]
    ends = sizes(stages, len(names))
    return [names[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def chosen(devices: Sequence[Device], pattern: str, keys: Sequence[str] = ()) -> tuple[list[Device], list[Device]]:
    """The devices that match a pattern and take orders, of these config keys; and those that match and do not."""
    matching = [each for each in devices if fnmatchcase(each.name, pattern) and each.info is not None]
    takes = [each for each in matching if _lets(each, keys)]
    return takes, [each for each in matching if each not in takes]


def _lets(device: Device, keys: Sequence[str]) -> bool:
    said = None if device.info is None else device.info.rollout
    return said is not None and all(lets(said.keys, key) for key in keys)
