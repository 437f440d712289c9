"""The broker's part of the config: where it is, how to speak with it, and how messages wait for it."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr, model_validator

from edgemeta.daemon.config.section import Port, RetryConfig, Seconds, Section, topic_levels


class BrokerRetryConfig(RetryConfig):
    """The same for the broker, which many devices may want at once."""

    first: Seconds = Field(default=1.0, description="Longest wait after the first failure, in seconds.")
    cap: Seconds = Field(default=60.0, description="Longest wait of all, in seconds.")


class TlsConfig(Section):
    """Encryption between here and the broker, whose certificate and host name are always checked."""

    enabled: bool = Field(default=False, description="Speak TLS (1.2 or later); the usual port is then 8883.")
    ca: str | None = Field(
        default=None, min_length=1, description="File of the CA certificates to trust (PEM); null is the system's."
    )
    certificate: str | None = Field(
        default=None, min_length=1, description="File of this device's own certificate (PEM); null sends none."
    )
    key: str | None = Field(
        default=None, min_length=1, description="File of that certificate's key (PEM); null: in the same file."
    )

    @model_validator(mode="after")
    def _complete(self) -> "TlsConfig":
        given = [key for key in ("ca", "certificate", "key") if getattr(self, key) is not None]
        if given and not self.enabled:
            raise ValueError(f"`enabled: true` beside `{given[0]}`")
        if self.key is not None and self.certificate is None:
            raise ValueError("`certificate` beside `key`")
        return self


class OutboxConfig(Section):
    """Where frame, state and event messages wait for the broker, and how many."""

    folder: str | None = Field(
        default=None,
        min_length=1,
        description="Folder of the file `outbox-<device>.sqlite3`; null is `$STATE_DIRECTORY`, else "
        "`$XDG_STATE_HOME/edgemeta`, else `~/.local/state/edgemeta`.",
    )
    size: int = Field(
        default=256,
        ge=0,
        le=1_000_000,
        description="Megabytes of messages kept on disk, then the oldest are dropped; 0 keeps them in memory only.",
    )
    memory: int = Field(
        default=8, ge=1, le=4096, description="Megabytes of messages kept in memory where the disk takes none."
    )
    age: float = Field(
        default=86400.0,
        gt=0,
        le=31_536_000,
        allow_inf_nan=False,
        description="Seconds that a message is kept, then it is dropped.",
    )
    pace: int = Field(
        default=500, ge=1, le=10_000, description="Messages per second replayed beside the live ones, at most."
    )


class MqttConfig(Section):
    """The broker and how to speak with it."""

    host: str = Field(default="localhost", min_length=1, description="Name or address of the broker.")
    port: Port = Field(default=1883, description="TCP port of the broker.")
    tls: TlsConfig = Field(default=TlsConfig(), description="Encryption.")
    version: Literal[5, "3.1.1"] = Field(default=5, description="MQTT version, `5` or `3.1.1`.")
    base: Annotated[str, AfterValidator(topic_levels)] = Field(
        default="edgemeta", description="First level(s) of every topic."
    )
    client_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=128,
        description="MQTT client id; null is `edgemeta-<device>`. One per client.",
    )
    username: str | None = Field(default=None, min_length=1, description="User name at the broker; null sends none.")
    username_file: str | None = Field(default=None, min_length=1, description="File whose first line is the user name.")
    username_env: str | None = Field(
        default=None, min_length=1, description="Environment variable that holds the user name."
    )
    password: SecretStr | None = Field(default=None, description="Password in plain text. Better: one of the next two.")
    password_file: str | None = Field(default=None, min_length=1, description="File whose first line is the password.")
    password_env: str | None = Field(
        default=None, min_length=1, description="Environment variable that holds the password."
    )
    keepalive: int = Field(default=30, ge=1, le=65535, description="Seconds of silence after which a ping is sent.")
    ack_timeout: Seconds = Field(
        default=10.0,
        description="Seconds that the broker may owe its next acknowledgement; then the service reconnects and sends "
        "again what was not acknowledged.",
    )
    qos: Literal[0, 1] = Field(
        default=1, description="Quality of service of frame and stats messages; 1 is acknowledged."
    )
    expiry: Annotated[int, Field(ge=1, le=4_294_967_295)] | None = Field(
        default=86400,
        description="Seconds that the broker keeps a frame or stats message for a subscriber that is away (MQTT 5); "
        "null is for ever.",
    )
    commands: bool = Field(
        default=True, description="Listen to commands on `<base>/<device>/cmd/`; false subscribes to none."
    )
    command_rate: int = Field(
        default=5,
        ge=1,
        le=1000,
        description="Commands per second and verb that are carried out, at most; those beyond are refused, a flood of "
        "them is not read.",
    )
    outbox: OutboxConfig = Field(default=OutboxConfig(), description="Messages that wait for the broker.")
    retry: BrokerRetryConfig = Field(default=BrokerRetryConfig(), description="Waits between tries to connect.")

    @model_validator(mode="after")
    def _one_login(self) -> "MqttConfig":
        names, passwords = (
            [key for key in (what, f"{what}_file", f"{what}_env") if getattr(self, key) is not None]
            for what in ("username", "password")
        )
        for given in (names, passwords):
            if len(given) > 1:
                raise ValueError(f"only one of {', '.join(given)}")
        if passwords and not names:
            raise ValueError(f"`username` beside `{passwords[0]}`")
        return self
