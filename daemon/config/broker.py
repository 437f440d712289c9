"""Config of the MQTT broker: its address, the connection, and the outbox."""

import ipaddress
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from edgemeta.daemon.config.login import (
    Password,
    PasswordFile,
    PasswordVariable,
    UserName,
    UserNameFile,
    UserNameVariable,
    keys_of_login,
)
from edgemeta.daemon.config.section import (
    INITIAL_DELAY,
    MAX_DELAY,
    PathText,
    Port,
    RetryConfig,
    Seconds,
    Section,
    topic_levels,
)

RULE = "a host's name or IP address, for example broker.example or 192.0.2.1"


def host_name(value: str) -> str:
    """Return a host's name or address, without anything around it. Raises ValueError with what to write instead."""
    url = re.fullmatch(r"(?:([a-z]+)://)?(?:[^/@]*@)?(\[[^\]]*\]|[^/:@]*)(?::(\d+))?(/.*)?", value)
    if value.count(":") > 1 and _is_ip(value):
        return value
    if url is None or not url[2]:
        raise ValueError(RULE)
    scheme, host, port = url[1], url[2].strip("[]"), url[3]
    if scheme in ("ws", "wss"):
        raise ValueError(f"`{host}` alone: MQTT over TCP or TLS, not over WebSocket")
    if value != host:
        tls = ", and `tls: {enabled: true}`" if scheme in ("mqtts", "ssl", "tls", "wss") else ""
        raise ValueError(f"`{host}` alone{f', and `port: {port}`' if port else ''}{tls}")
    labels = host.removesuffix(".").split(".")
    if not all(re.fullmatch(r"[\w-]{1,63}", label) for label in labels) or len(host) > 253:
        raise ValueError(RULE)
    return value


def _is_ip(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True


HostName = Annotated[str, Field(min_length=1), AfterValidator(host_name)]


class BrokerRetryConfig(RetryConfig):
    """Delays between attempts to connect to the broker, longer than a camera's: many devices may reconnect at once."""

    initial_delay: Seconds = Field(default=1.0, description=INITIAL_DELAY)
    max_delay: Seconds = Field(default=60.0, description=MAX_DELAY)


class TlsConfig(Section):
    """TLS to the broker. The broker's certificate and host name are always checked."""

    enabled: bool = Field(default=False, description="Use TLS (1.2 or later); its usual port is 8883.")
    ca_file: PathText | None = Field(
        default=None, description="File of the CA certificates to trust (PEM); null uses the system's."
    )
    cert_file: PathText | None = Field(
        default=None, description="File of the client certificate (PEM); null sends none."
    )
    key_file: PathText | None = Field(
        default=None,
        description="File of the client certificate's private key (PEM); null: the key is in `cert_file`.",
    )

    @model_validator(mode="after")
    def _complete(self) -> "TlsConfig":
        given = [key for key in ("ca_file", "cert_file", "key_file") if getattr(self, key) is not None]
        if given and not self.enabled:
            raise ValueError(f"`enabled: true` beside `{given[0]}`")
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("`cert_file` beside `key_file`")
        return self


class OutboxConfig(Section):
    """How many frame, state and event messages wait for the broker, and for how long."""

    max_disk_mb: int = Field(
        default=256,
        ge=0,
        le=1_000_000,
        description="Most megabytes (10^6 bytes) of messages on disk; beyond it the oldest are dropped; 0: none.",
    )
    max_memory_mb: int = Field(
        default=8,
        ge=1,
        le=4096,
        description="Most megabytes (10^6 bytes) of waiting messages in memory: those that are not on disk, and copies "
        "of the newest that are.",
    )
    max_age: float = Field(
        default=86400.0,
        gt=0,
        le=31_536_000,
        allow_inf_nan=False,
        description="Seconds after which a message that still waits is dropped.",
    )
    max_replayed_per_second: int = Field(
        default=500, ge=1, le=10_000, description="Most waiting messages per second that are sent beside the live ones."
    )


class MqttConfig(Section):
    """The MQTT broker and the connection to it."""

    host: HostName = Field(default="localhost", description="Host name or address of the broker.")
    port: Port = Field(default=1883, description="TCP port of the broker.")
    tls: TlsConfig = Field(default=TlsConfig(), description="Encryption.")
    version: Literal[5, "3.1.1"] = Field(default=5, description="MQTT version, `5` or `3.1.1`.")
    base_topic: Annotated[str, AfterValidator(topic_levels)] = Field(
        default="edgemeta", description="First level(s) of every topic."
    )
    client_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=128,
        description="MQTT client id, unique at the broker; null is `edgemeta-<device>`.",
    )
    username: UserName = None
    username_file: UserNameFile = None
    username_env: UserNameVariable = None
    password: Password = None
    password_file: PasswordFile = None
    password_env: PasswordVariable = None
    keepalive: int = Field(
        default=30, ge=1, le=65535, description="MQTT keep-alive: seconds without traffic after which a ping is sent."
    )
    ack_timeout: Seconds = Field(
        default=10.0,
        description="Seconds to wait for the broker's next acknowledgement; then the service reconnects and sends "
        "the unacknowledged messages again.",
    )
    qos: Literal[0, 1] = Field(
        default=1,
        description="Quality of service of all messages and the last will; with 1 the broker acknowledges each.",
    )
    message_expiry_interval: Annotated[int, Field(ge=1, le=4_294_967_295)] | None = Field(
        default=86400,
        description="Seconds that the broker keeps a frame or stats message for a subscriber that is offline (MQTT 5); "
        "null: no limit.",
    )
    commands: bool = Field(
        default=True, description="Accept commands on `<base>/<device>/cmd/`; false subscribes to none."
    )
    keep_settings: bool = Field(
        default=False,
        description="Keep what the command `set` has set over reloads and restarts, in `settings-<device>.json` in "
        "`data_folder`; false: until the next reload or restart.",
    )
    max_commands_per_second: int = Field(
        default=5,
        ge=1,
        le=1000,
        description="Most commands per second and verb that are carried out; those beyond it are refused, and during a "
        "flood the topic is unsubscribed.",
    )
    outbox: OutboxConfig = Field(default=OutboxConfig(), description="Messages that wait for the broker.")
    retry: BrokerRetryConfig = Field(default=BrokerRetryConfig(), description="Delays between attempts to connect.")

    @model_validator(mode="after")
    def _one_login(self) -> "MqttConfig":
        names, passwords = keys_of_login(self)
        if passwords and not names:
            raise ValueError(f"`username` beside `{passwords[0]}`")
        return self
