"""What may change between two frames of a camera: names, when the state changes, what is published."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.inference.smoothing import Rule
from edgemeta.daemon.runtime.clock import NS


@dataclass(frozen=True)
class CameraSettings:
    """How one camera's frames become messages.

    top: labels named in a frame message. rule: when the state changes. labels: other names for the network's labels.
    only_changes: publish a frame only where it brings a change of state, or after heartbeat_ns; after these
    nanoseconds the state is told again in any case.
    """

    top: int
    rule: Rule
    labels: Mapping[str, str] = field(default_factory=dict)
    only_changes: bool = False
    heartbeat_ns: int = 60 * NS


def settings_of(config: Config, camera: str) -> CameraSettings:
    """Return what a config says of a camera: its own `state` and `publish` where it has them, else the service's."""
    own = config.cameras[camera]
    state, publish = own.state or config.state, own.publish or config.publish
    return CameraSettings(
        top=config.top_k,
        rule=Rule(state.agree, state.window, state.enter, state.leave, int(state.hold * NS)),
        labels=config.labels,
        only_changes=publish.frames == "change",
        heartbeat_ns=int(publish.heartbeat * NS),
    )
