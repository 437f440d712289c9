"""Config of Home Assistant's MQTT discovery."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from edgemeta.daemon.config.reloading import Applies
from edgemeta.daemon.config.section import Section, ShownName, topic_levels

TopicName = Annotated[str, AfterValidator(topic_levels)]


def _web_address(value: str | None) -> str | None:
    if value is not None and not re.fullmatch(r"https?://[^\s/@]+(/\S*)?", value):
        raise ValueError("an address that begins with http:// or https://, without a login")
    return value


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
    suggested_area: Annotated[ShownName | None, Applies.AT_ONCE] = Field(
        default=None, description="Area that Home Assistant suggests for the device when it is new, such as `Yard`."
    )
    configuration_url: Annotated[str | None, AfterValidator(_web_address), Applies.AT_ONCE] = Field(
        default=None,
        description="Address of the live page, which Home Assistant shows as *Visit*; null is that of `web.host` and "
        "`web.port`, where other machines can reach it.",
    )
