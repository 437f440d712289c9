"""The part of the config that lets Home Assistant find the device."""

from typing import Annotated

from pydantic import AfterValidator, Field

from edgemeta.daemon.config.section import Section, topic_levels

TopicName = Annotated[str, AfterValidator(topic_levels)]


class HomeAssistantConfig(Section):
    """MQTT discovery by Home Assistant."""

    enabled: bool | None = Field(
        default=None,
        description="true announces the device and its cameras to Home Assistant, false takes back what an earlier run "
        "announced, null does neither.",
    )
    prefix: TopicName = Field(default="homeassistant", description="Home Assistant's discovery prefix.")
    status: TopicName = Field(
        default="homeassistant/status",
        description="Topic on which Home Assistant says `online` when it starts; the device is then announced again.",
    )
