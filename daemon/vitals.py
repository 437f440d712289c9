"""How the service fares at one moment, in numbers and words."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Vitals:
    """What the service manager is told of.

    frames: frames classified since the start. cameras: where each stands, in words. broker: the same of the broker.
    troubles: threads that hang, in words; while there are any, the watchdog is not fed.
    page: why the live page is not served, in words; None where it is, or is not wanted.
    swap: how far a swap of models is, in words; None where none is in flight.
    """

    frames: int
    cameras: dict[str, str]
    broker: str
    troubles: tuple[str, ...]
    page: str | None = None
    swap: str | None = None
