"""The table of a device's topics and their messages, used by the service, AsyncAPI and the tests."""

import re
from dataclasses import dataclass

from pydantic import BaseModel

from edgemeta.daemon.messages.commands import ModelCommand, ReloadCommand, RestartCommand, SetCommand
from edgemeta.daemon.messages.events import EventMessage
from edgemeta.daemon.messages.records import FrameMessage, MotionMessage, StateMessage, StatusMessage
from edgemeta.daemon.messages.rollouts import RolloutCommand
from edgemeta.daemon.messages.service import AnswerMessage, InfoMessage, SettingsMessage
from edgemeta.daemon.messages.stats import StatsMessage
from edgemeta.daemon.messages.swaps import SwapMessage


@dataclass(frozen=True)
class Channel:
    """One kind of topic.

    message: the record sent as JSON; None for another kind of content, which `media` names.
    kept: whether all messages wait, in order, while the broker cannot be reached. gives_way: whether the others are
    sent before them on a line that is slower than they are made.
    received: whether others publish there and the service subscribes.
    by_option: whether it is sent only where the config asks for it.
    """

    name: str
    address: str
    message: type[BaseModel] | None
    retain: bool
    summary: str
    kept: bool = False
    gives_way: bool = False
    received: bool = False
    by_option: bool = False
    media: str = "application/json"


AVAILABILITY = Channel(
    "availability",
    "{base}/{device}/availability",
    None,
    retain=True,
    summary="`online` at every connect; `offline` before the service disconnects, and as its last will.",
    media="text/plain",
)
INFO = Channel("info", "{base}/{device}/info", InfoMessage, retain=True, summary="What runs on the device.")
STATS = Channel(
    "stats",
    "{base}/{device}/stats",
    StatsMessage,
    retain=False,
    summary="Counters and latencies, sent periodically.",
)
FRAME = Channel(
    "frame",
    "{base}/{device}/{camera}/frame",
    FrameMessage,
    retain=False,
    summary="A classified frame.",
    kept=True,
    gives_way=True,
)
STATE = Channel(
    "state",
    "{base}/{device}/{camera}/state",
    StateMessage,
    retain=True,
    summary="State of a camera: its smoothed label, or how many of each label are present.",
    kept=True,
)
EVENT = Channel(
    "event",
    "{base}/{device}/{camera}/event",
    EventMessage,
    retain=False,
    summary="A change of state, or what an object did.",
    kept=True,
)
STATUS = Channel("status", "{base}/{device}/{camera}/status", StatusMessage, retain=True, summary="Status of a camera.")
MOTION = Channel(
    "motion",
    "{base}/{device}/{camera}/motion",
    MotionMessage,
    retain=True,
    summary="Whether there is motion before a camera, with `motion.publish`.",
    by_option=True,
)
SNAPSHOT = Channel(
    "snapshot",
    "{base}/{device}/{camera}/snapshot",
    None,
    retain=False,
    summary="The picture of a camera as JPEG, with `snapshots.interval`; retained with `snapshots.retain`.",
    by_option=True,
    media="image/jpeg",
)
CROP = Channel(
    "crop",
    "{base}/{device}/{camera}/crop",
    None,
    retain=False,
    summary="What the last event is about as JPEG, with `snapshots.events`; retained with `snapshots.retain`.",
    by_option=True,
    media="image/jpeg",
)
COUNT = Channel(
    "count",
    "{base}/{device}/{camera}/count/{label}",
    None,
    retain=True,
    summary="How many of a label are present as a plain number, with `publish.plain_counts`.",
    by_option=True,
    media="text/plain",
)
SETTINGS = Channel(
    "settings", "{base}/{device}/{camera}/settings", SettingsMessage, retain=True, summary="Settings of a camera."
)

SWAP = Channel("swap", "{base}/{device}/swap", SwapMessage, retain=True, summary="Result of the last model swap.")
ANSWER = Channel("answer", "{base}/{device}/resp/{verb}", AnswerMessage, retain=False, summary="Result of a command.")
RELOAD_COMMAND = Channel(
    "reload_command",
    "{base}/{device}/cmd/reload",
    ReloadCommand,
    retain=False,
    summary="To the service: reload the config.",
    received=True,
)
MODEL_COMMAND = Channel(
    "model_command",
    "{base}/{device}/cmd/model",
    ModelCommand,
    retain=False,
    summary="To the service: swap to this model.",
    received=True,
)

SET_COMMAND = Channel(
    "set_command",
    "{base}/{device}/cmd/set",
    SetCommand,
    retain=False,
    summary="To the service: change settings of a camera.",
    received=True,
)
RESTART_COMMAND = Channel(
    "restart_command",
    "{base}/{device}/cmd/restart",
    RestartCommand,
    retain=False,
    summary="To the service: restart.",
    received=True,
)

ROLLOUT_COMMAND = Channel(
    "rollout_command",
    "{base}/{device}/cmd/rollout",
    RolloutCommand,
    retain=True,
    summary="To the service, with `swap.rollouts`: use this model from now on.",
    received=True,
    by_option=True,
)
MODEL_PART = Channel(
    "model_part",
    "{base}/.models/{sha256}/{part}",
    None,
    retain=True,
    summary="To all services: a part of a model that a rollout sends by the broker.",
    received=True,
    by_option=True,
    media="application/octet-stream",
)

CHANNELS = (
    *(AVAILABILITY, INFO, STATS, FRAME, STATE, EVENT, STATUS, MOTION, SNAPSHOT, CROP, COUNT, SETTINGS),
    *(SWAP, ANSWER, RELOAD_COMMAND, MODEL_COMMAND, SET_COMMAND, RESTART_COMMAND),
    *(ROLLOUT_COMMAND, MODEL_PART),
)


@dataclass(frozen=True)
class Topics:
    """Turns channels into the topics of one device."""

    base: str
    device: str

    def part(self, sha256: str, part: int) -> str:
        """Return the topic of a part of a model."""
        return MODEL_PART.address.format(base=self.base, sha256=sha256, part=part)

    def of(self, channel: Channel, camera: str = "", verb: str = "", zone: str = "", label: str = "") -> str:
        """Return the topic of a channel; `camera` for those that have one per camera, `verb` for answers.

        zone, label: for counts; characters of a label that no topic level has become `-`.
        """
        level = re.sub(r"[/+#\x00-\x1f]", "-", label)
        level = f"{zone}/{level}" if zone else level
        return channel.address.format(base=self.base, device=self.device, camera=camera, verb=verb, label=level)
