"""Per-camera settings that may change between two frames: label names, state rule, what is published."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.inference.smoothing import Rule
from edgemeta.daemon.runtime.clock import NS


@dataclass(frozen=True)
class CameraSettings:
    """How the frames of one camera become messages.

    top: labels named in a frame message. rule: when the state changes. labels: aliases by label of the model.
    only_changes: publish a frame only where the state changes, or after heartbeat_ns. heartbeat_ns: nanoseconds after
    which the state is published again in any case.
    """

    top: int
    rule: Rule
    labels: Mapping[str, str] = field(default_factory=dict)
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
        only_changes=publish.frames == "change",
        heartbeat_ns=int(publish.heartbeat_interval * NS),
    )
