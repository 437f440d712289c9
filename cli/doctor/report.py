"""The report of `doctor` as records, the definition of docs/schema/doctor.schema.json and of docs/boards.md's table.

Texts may come from drivers and libraries. As JSON they are without names, addresses and paths; in memory as they came.
"""

from typing import Annotated, Literal

from pydantic import Field, PlainSerializer, SerializationInfo

from edgemeta.cli.doctor.names import without_names
from edgemeta.daemon.messages.records import Part
from edgemeta.daemon.messages.stats import DeviceHealth


def _public(text: str, info: SerializationInfo) -> str:
    return without_names(text, (info.context or {}).get("names", ()))


Text = Annotated[str, PlainSerializer(_public, return_type=str, when_used="json")]
"""As JSON without names: `context` of the serialization has `names`, those to take out."""

Version = Annotated[str, Field(pattern=r"^\d[\w.]*$")]


class Board(Part):
    """The machine and its system."""

    model: Text | None = Field(description="What the device tree, or the firmware, calls the board; null if neither.")
    processor: Text = Field(description="Names of its processors.")
    architecture: Text = Field(description="Of the kernel, such as aarch64.")
    bits: Literal[32, 64] = Field(description="Of this program's addresses.")
    cores: int = Field(ge=1, description="Processors.")
    memory_bytes: int = Field(ge=0, description="Memory.")
    kernel: Text = Field(description="Linux, its first two numbers.")
    distribution: Text | None = Field(description="Name of the system.")
    libc: Text = Field(description="C library.")
    python: Version = Field(description="Version.")
    packages: dict[Text, Version] = Field(description="Versions of the packages that matter, as far as installed.")
    container: bool = Field(description="Whether it runs in a container.")


class BackendState(Part):
    """One backend."""

    name: Text = Field(description="Its name in configs.")
    available: bool = Field(description="Whether it can run here.")
    reason: Text = Field(description="How, or why not.")


class KernelTest(Part):
    """Small networks and the shipped ones in one form on one instruction set, beside the reference, bit for bit."""

    backend: Text = Field(description="The backend.")
    isa: Text | None = Field(description="The instruction set; null where there is no choice.")
    form: Text | None = Field(description="The form that convolutions take if they can; null where there is no choice.")
    threads: int = Field(ge=1, description="Threads.")
    networks: int = Field(ge=0, description="Networks that were run.")
    unsupported: int = Field(ge=0, description="Networks that the backend does not run.")
    left: int = Field(ge=0, description="Networks for which no time was left.")
    differ: list[Text] = Field(description="Networks with an integer that is not the reference's.")
    failure: Text | None = Field(description="What ended the test early; null if nothing did.")


class RuntimeSpeed(Part):
    """ResNet-8 (32x32 pixels, 12.5 million multiply-accumulates), one image, one thread of a processor or a GPU."""

    runtime: Text = Field(description="The runtime, with its version or instruction set.")
    median_us: float | None = Field(description="Median of its microseconds; null if it failed.")
    ours_us: float | None = Field(description="Our median, in turns with it in the same process.")
    ratio: float | None = Field(description="Ours divided by its: below 1 we are faster.")
    failure: Text | None = Field(description="Why there is no time; null if there is one.")


class VideoDevice(Part):
    """One V4L2 device."""

    kind: Literal["camera", "decoder", "other", "unreadable"] = Field(
        description="A camera gives pictures, a decoder takes compressed ones; unreadable: this user may not open it."
    )
    card: Text | None = Field(description="What its driver calls it.")
    driver: Text | None = Field(description="The driver.")
    formats: list[Text] = Field(description="Four-letter codes of what a camera gives or a decoder takes.")
    failure: Text | None = Field(description="Why it did not say this; null if it did.")


class Gstreamer(Part):
    """GStreamer, as the sources `gstreamer:` and `csi:` use it."""

    version: Version = Field(description="Its version.")
    elements: list[Text] = Field(description="Which elements for cameras and hardware decoders it has.")


class Broker(Part):
    """The answer of the broker that was named."""

    connected: bool = Field(description="Whether it accepted the connection, with the config's TLS and login.")
    seconds: float = Field(ge=0, description="How long that took.")
    reason: Text | None = Field(description="Why not; null if it did.")


class Problem(Part):
    """Something that is in the way."""

    part: Literal["backends", "kernels", "speed", "video", "broker", "config", "clock", "health", "service"] = Field(
        description="Which part of the report."
    )
    text: Text = Field(description="What it is.")
    hint: Text = Field(description="What helps.")


class DoctorReport(Part):
    """What `edgemeta doctor` found. It has no names of machines or users, no addresses, paths or serial numbers."""

    schema_version: Literal[1] = Field(default=1, description="Version of this format.")
    edgemeta: Version = Field(description="Version of edgemeta.")
    date: str = Field(pattern=r"^\d{4}-\d\d-\d\d$", description="Day, UTC.")
    seconds: float = Field(ge=0, description="How long all of this took.")
    ok: bool = Field(description="Whether there are no problems.")
    board: Board = Field(description="The machine.")
    backends: list[BackendState] = Field(description="Every backend.")
    kernels: list[KernelTest] = Field(description="Self-tests; what is not listed had no time.")
    speed: list[RuntimeSpeed] = Field(description="Our cpu backend, then it beside each runtime that is installed.")
    video: list[VideoDevice] = Field(description="V4L2 devices.")
    gstreamer: Gstreamer | None = Field(description="GStreamer; null without it.")
    broker: Broker | None = Field(description="The broker; null if none was named.")
    clock_synchronized: bool = Field(description="Whether the clock is synchronized.")
    health: DeviceHealth = Field(description="The device; `cpu` is null.")
    service: Literal["active", "inactive", "failed", "starting", "absent", "unknown"] = Field(
        description="The systemd unit `edgemeta`: absent without the unit or systemd, unknown if systemd does not say."
    )
    problems: list[Problem] = Field(description="What is in the way; empty if nothing is.")
