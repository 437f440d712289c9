"""Config of the live page: whether it is served, at which address, and who has access."""

import ipaddress
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr, model_validator

from edgemeta.daemon.config.section import PathText, Section


def _address(value: str) -> str:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        raise ValueError("an IP address, for example 127.0.0.1 or 0.0.0.0") from None
    return value


class WebConfig(Section):
    """The live page, with the endpoints for health and metrics beside it."""

    enabled: bool = Field(default=False, description="Serve the live page, health and metrics over HTTP.")
    host: Annotated[str, AfterValidator(_address)] = Field(
        default="127.0.0.1", description="IP address to listen on. One that other machines can reach needs a token."
    )
    port: Annotated[int, Field(ge=0, le=65535)] = Field(
        default=8480, description="TCP port; 0 chooses a free one, which is logged."
    )
    token: SecretStr | None = Field(
        default=None,
        description="Access token: at least 16 letters, digits or `-._~+/=`; `token_file` or `token_env` are safer.",
    )
    token_file: PathText | None = Field(default=None, description="File whose first line is the token.")
    token_env: str | None = Field(default=None, min_length=1, description="Environment variable that holds the token.")
    show_frames: bool = Field(
        default=True,
        description="Show the cameras' frames; false shows labels and figures only, and keeps no frame.",
    )
    max_fps: int = Field(
        default=10,
        ge=1,
        le=100,
        description="Most frames encoded as JPEG per second, for all cameras and viewers together.",
    )

    @model_validator(mode="after")
    def _guarded(self) -> "WebConfig":
        given = [key for key in ("token", "token_file", "token_env") if getattr(self, key) is not None]
        if len(given) > 1:
            raise ValueError(f"only one of {', '.join(given)}")
        if not given and not self.loopback:
            raise ValueError(f"`token_file` or `token_env` beside `host: {self.host}`, which other machines reach")
        return self

    @property
    def has_token(self) -> bool:
        """Whether clients need a token."""
        return (self.token, self.token_file, self.token_env) != (None, None, None)

    @property
    def loopback(self) -> bool:
        """Whether programs of this machine alone can reach the address."""
        return ipaddress.ip_address(self.host).is_loopback
