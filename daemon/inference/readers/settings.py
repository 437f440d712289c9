"""Per-camera settings that may change between two frames: label names, state rule, what is published."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgemeta.daemon.config.camera import TilesConfig
from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.objects import LineConfig, ObjectsConfig, ZoneConfig
from edgemeta.daemon.config.tracking import TrackingConfig
from edgemeta.daemon.runtime.clock import NS


@dataclass(frozen=True)
class Rule:
    """When the state changes.

    A frame votes for its best label where that scores at least `enter`, or `leave` if the label is already the state;
    otherwise it votes for None: no label is certain. An unknown frame votes for unknown. `agree` of the last `window`
    frames must vote alike, and agree > window / 2. A state lasts at least `hold_ns` nanoseconds.
    """

    agree: int
    window: int
    enter: float = 0.0
    leave: float = 0.0
    hold_ns: int = 0


@dataclass(frozen=True)
class CameraSettings:
    """How the frames of one camera become messages.

    top: labels named in a frame message. reject_unknown: whether the model's rule of rejection applies. rule: when the
    state changes. labels: aliases by label of the model. objects: which detected objects count. zones, lines: by name.
    tracking: how they are followed. tiles: how the picture is cut. only_changes: publish a frame only where the state
    changes, or after heartbeat_ns. heartbeat_ns: nanoseconds after which the state is published again in any case.
    """

    top: int
    rule: Rule
    labels: Mapping[str, str] = field(default_factory=dict)
    objects: ObjectsConfig = field(default_factory=ObjectsConfig)
    zones: Mapping[str, ZoneConfig] = field(default_factory=dict)
    lines: Mapping[str, LineConfig] = field(default_factory=dict)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    tiles: TilesConfig = field(default_factory=TilesConfig)
    reject_unknown: bool = True
    only_changes: bool = False
    heartbeat_ns: int = 60 * NS


def settings_of(config: Config, camera: str) -> CameraSettings:
    """Return the settings of a camera: its own `state` and `publish` sections where it has them, else the service's."""
    own = config.cameras[camera]
    state, publish = own.state or config.state, own.publish or config.publish
    return CameraSettings(
        top=config.top_k,
        rule=Rule(
            state.min_frames, state.window_frames, state.enter_score, state.leave_score, int(state.min_duration * NS)
        ),
        labels=config.label_map,
        objects=own.objects or config.objects,
        zones=own.zones,
        lines=own.lines,
        tracking=own.tracking or config.tracking,
        tiles=own.tiles,
        reject_unknown=own.reject_unknown,
        only_changes=publish.frames == "change",
        heartbeat_ns=int(publish.heartbeat_interval * NS),
    )
