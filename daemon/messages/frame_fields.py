"""The frame message as a plain dict: the fields of `FrameMessage`, filled and encoded without validation.

A record would be validated field by field, which takes longer than its JSON. A test holds these dicts and the record,
from which the schema is made, equal.
"""

from datetime import datetime
from typing import Literal, TypeAlias, TypedDict


class ModelFields(TypedDict):
    """`ModelIdentity` as a dict."""

    name: str
    sha256: str


class LabelFields(TypedDict):
    """`LabelScore` as a dict."""

    label: str
    score: float


Corners: TypeAlias = tuple[float, float, float, float]


class ObjectFields(TypedDict):
    """`FoundObject` as a dict."""

    label: str
    score: float
    box: Corners
    box_relative: Corners
    zones: list[str]


class LatencyFields(TypedDict):
    """`FrameLatency` as a dict; microseconds."""

    delay: int
    wait: int
    preprocess: int
    inference: int
    postprocess: int
    total: int


class DropFields(TypedDict):
    """`Drops` as a dict."""

    superseded: int
    failed: int
    outbox: int
    refused: int
    stopped: int


class FrameFields(TypedDict):
    """`FrameMessage` as a dict, its keys in the order in which they are sent. The publisher sets `id`."""

    schema_version: Literal[2]
    device: str
    boot: str
    id: int
    camera: str
    sequence: int
    captured: datetime
    clock_synchronized: bool
    model: ModelFields
    backend: str
    labels: list[LabelFields]
    unknown: bool
    objects: list[ObjectFields] | None
    embedding: list[float] | None
    state: str | None
    counts: dict[str, int] | None
    zones: dict[str, dict[str, int]] | None
    latency_us: LatencyFields
    dropped: DropFields
    withheld: int
    historical: bool
