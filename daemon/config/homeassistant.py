"""Config of Home Assistant's MQTT discovery."""

from typing import Annotated

from pydantic import AfterValidator, Field

from edgemeta.daemon.config.reloading import Applies
from edgemeta.daemon.config.section import Section, topic_levels

TopicName = Annotated[str, AfterValidator(topic_levels)]


class HomeAssistantConfig(Section):
    """MQTT discovery by Home Assistant."""

    enabled: Annotated[bool | None, Applies.AT_ONCE] = Field(
        default=None,
        description="true announces the device and its cameras to Home Assistant, false removes what an earlier run "
        "announced, null does neither.",
    )
    discovery_prefix: TopicName = Field(default="homeassistant", description="Home Assistant's discovery prefix.")
    status_topic: TopicName = Field(
        default="homeassistant/status",
        description="Topic on which Home Assistant publishes `online` when it starts; the device then announces again.",
    )
