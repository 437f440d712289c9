"""The messages about the service: settings that commands change, what runs, and answers to commands."""

from datetime import datetime

from pydantic import Field

from edgemeta.daemon.messages.records import CameraName, Message, ModelIdentity, Part, SynchronizedWhenSent
from edgemeta.daemon.messages.rollouts import RolloutState
from edgemeta.model.tasks import TaskName


class ModelUpdate(Part):
    """What is known of the available version of a model, and how its installation gets on."""

    summary: str | None = Field(
        default=None, description="What it is, its licence and measured accuracy; null unless it is of the registry."
    )
    url: str | None = Field(default=None, description="Where it comes from; null as before.")
    in_progress: bool = Field(default=False, description="Whether it is being fetched and tried now.")
    percentage: int | None = Field(
        default=None, ge=0, le=100, description="How much of it is downloaded; null in other steps."
    )
    failed: str | None = Field(default=None, description="Why the last attempt failed; null after none.")


class SettingsMessage(Message):
    """Settings of a camera that commands can change; sent at the start, and after each change."""

    camera: CameraName
    enabled: bool = Field(description="Whether the camera is read and its frames are classified.")
    max_fps: float = Field(ge=0, description="Most frames per second to classify; 0: all.")
    score: float | None = Field(
        ge=0,
        le=1,
        description="Detection: least score of all labels, null if they differ; classification: at which a label "
        "becomes the state. Null for other tasks.",
    )
    labels: list[str] | None = Field(description="Detection: labels to report; null: all, or another task.")
    model: str = Field(description="The model in use, as the command `model` names it.")
    model_sha256: str = Field(pattern="^[0-9a-f]{64}$", description="SHA-256 of its file.")
    available_sha256: str = Field(
        pattern="^[0-9a-f]{64}$",
        description="SHA-256 of the newest file of that name that `swap.updates` allows; without another one, that of "
        "the model in use.",
    )
    update: ModelUpdate = Field(default=ModelUpdate(), description="About that file.")
    by_command: list[str] = Field(description="Which of these the command `set` has set; the others are the config's.")


class InfoMessage(Message):
    """What runs on the device; sent at every connect and after a reload."""

    version: str = Field(description="Version of edgemeta.")
    started: datetime = Field(description="When the service started, UTC.")
    clock_synchronized: SynchronizedWhenSent
    model: ModelIdentity = Field(description="The model; that of the first camera if they differ.")
    task: TaskName = Field(description="Task of that model.")
    labels: list[str] = Field(description="All labels that messages may contain.")
    backend: str = Field(description="The backend that runs it.")
    config_sha256: str = Field(pattern="^[0-9a-f]{64}$", description="SHA-256 of the config in effect.")
    cameras: list[str] = Field(description="Names of the cameras.")
    names: dict[str, str] = Field(description="Name of each camera for people; the camera's own without `name`.")
    models: dict[str, ModelIdentity] = Field(description="Model of each camera.")
    tasks: dict[str, TaskName] = Field(description="Task of each camera's model.")
    overloaded: str | None = Field(
        description="What was measured when the service began to get too little of the processor, so that frames are "
        "late; null while it gets enough."
    )
    model_refused: str | None = Field(
        description="Reason why a model named by the config is not in use; null if all are."
    )
    rollout: RolloutState | None = Field(
        default=None, description="What a fleet wants of the device; null where `swap.rollouts` is `refuse`."
    )


class AnswerMessage(Message):
    """Result of a command."""

    verb: str = Field(description="The command.")
    ok: bool = Field(description="Whether it succeeded.")
    outcome: str = Field(description="Description of the result.")
    transaction: str | None = Field(description="The `transaction` of the command; null if it had none.")
