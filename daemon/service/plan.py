"""From a config file to all that the service needs, checked without cameras or broker: models, backend, sources."""

import difflib
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from edgemeta.daemon.capture.source import OnDemandSource, Source, SourceError, SourceSpec
from edgemeta.daemon.capture.sources.registry import make_source
from edgemeta.daemon.capture.sources.stream.source import StreamSource
from edgemeta.daemon.config.camera import CameraConfig
from edgemeta.daemon.config.config import Config, digest, resolved
from edgemeta.daemon.config.error_text import reason_of
from edgemeta.daemon.config.loader import MOST_MISTAKES, ConfigError, ConfigFile, Mistake, Problem
from edgemeta.daemon.config.reloading import Applies, applies, is_key
from edgemeta.daemon.config.secrets import SecretError, password_of, token_of, username_of
from edgemeta.daemon.inference.loaded_model import LoadedModel
from edgemeta.daemon.inference.model_loader import (
    ModelProblem,
    addresses_of,
    backend_of,
    close_all,
    model_problem,
    models_of,
    verified_models,
)
from edgemeta.daemon.inference.object_names import load_names
from edgemeta.daemon.inference.readers.labels import listed_labels, listed_numbers, reported_labels, unknown_labels
from edgemeta.daemon.inference.readers.settings import settings_of
from edgemeta.daemon.inference.swap.last_good import LastGood, NoLastGoodError, folder_of
from edgemeta.daemon.mqtt.homeassistant.entities import DeviceView, view_of
from edgemeta.daemon.mqtt.tls import TlsError, context_of
from edgemeta.daemon.service.model_folder import choosable, chosen_name
from edgemeta.daemon.service.object_checks import object_problems
from edgemeta.daemon.service.rollout_store import Values, with_rollout
from edgemeta.daemon.service.settings import Settings, fitting, read_settings, with_settings
from edgemeta.model.errors import EdgemetaError
from edgemeta.model.graph import Model
from edgemeta.model.small_file import exists, is_folder
from edgemeta.plugins.api import Backend

log = logging.getLogger(__name__)

LEFT_OUT = "the config is read without the values of a rollout: %s: found %s, expected %s"
HOLDS_LOGIN = "a file or variable that holds the user name or password"


class PlanError(EdgemetaError):
    """A config from a command that cannot be used, with its first mistake in one sentence."""


@dataclass(frozen=True)
class Plan:
    """What is to run: a valid config, its models loaded, its sources created but not opened.

    path: the config file. config: in effect: `base` with what the command `set` has set, `settings`. loaded_models: by
    camera, cameras may share one. names: models of `object_names`, by label. The owner of the plan closes them.
    refused: reason why a model named by the config is not in use; None where all of them are. picture_sources: where
    the pictures to publish come from another stream. values: those of a rollout that are in `base`.
    """

    path: Path
    base: Config
    settings: Settings
    config: Config
    config_sha256: str
    loaded_models: dict[str, LoadedModel]
    sources: dict[str, Source]
    names: dict[str, LoadedModel] = field(default_factory=dict)
    refused: str | None = None
    picture_sources: Mapping[str, OnDemandSource] = field(default_factory=dict)
    values: Values = field(default_factory=dict)

    def labels_of(self, camera: str) -> tuple[str, ...]:
        """Labels that messages of a camera may contain."""
        return reported_labels(self.loaded_models[camera].model, settings_of(self.config, camera))

    def listed_labels_of(self, camera: str) -> tuple[str, ...]:
        """Labels of a camera that have values of their own in Home Assistant and in the metrics."""
        return listed_labels(self.loaded_models[camera].model, settings_of(self.config, camera))

    def device_view(self, health: tuple[str, ...] = ()) -> DeviceView:
        """What Home Assistant is told about the device. health: names of what it says about itself."""
        tasks = {name: loaded.task for name, loaded in self.loaded_models.items()}
        numbers = {name: listed_numbers(loaded.model) for name, loaded in self.loaded_models.items()}
        labels = {name: self.listed_labels_of(name) for name in tasks}
        used = {name: chosen_name(self.config.model_of(name)) for name in tasks}
        return view_of(self.config, labels, tasks, numbers, choosable(self.config, tasks.values()), used, health)


@dataclass
class InUse:
    """What a service runs now; changes replace it. refused: as in `Plan`, also after a swap that failed."""

    plan: Plan
    refused: str | None


@contextmanager
def _as_config_error(path: Path, *kinds: type[Exception]) -> Iterator[None]:
    """Turn an error of the system about what a config names into a ConfigError."""
    try:
        yield
    except kinds as error:
        raise ConfigError(Mistake(str(path), 0, "", reason_of(error), "a config that can be used here")) from error


def prepare(path: Path, running: Plan | None = None, keep_settings: bool = False, takes_values: bool = True) -> Plan:
    """Read a config file and load what it names. Raises ConfigError with all mistakes at once.

    The models of a running plan are reused where model file and backend are the same. keep_settings: whether its
    settings stay, whatever the config says. takes_values: whether values of a rollout are taken, where they fit.
    """
    with _as_config_error(path, OSError, RecursionError, MemoryError):
        file = ConfigFile(path, Config)
        found, problems = file.validate()
        if found is None:
            raise file.error(problems)
        config, values = with_rollout(file, resolved(found, path.parent), takes_values and not problems)
        plan = _plan(path, config, _kept(config, running, keep_settings), running, problems, values=values)
        if plan is None and values:
            log.warning(LEFT_OUT, *problems[0].shown)
            return prepare(path, running, keep_settings, takes_values=False)
        if plan is None:
            raise file.error(problems)
        return plan


def _kept(config: Config, running: Plan | None, keeps: bool = False) -> Settings:
    """Return what the command `set` has set, as far as the running config, or this one at a start, keeps it."""
    if running is not None:
        return running.settings if keeps or running.base.mqtt.keep_settings else {}
    return read_settings(config) if config.mqtt.keep_settings else {}


def prepare_start(path: Path) -> Plan:
    """Like `prepare`, for a start: models that cannot be used are replaced by the last good ones.

    So are models that failed on live frames when they were last tried. Raises ConfigError where the config has other
    mistakes, disables the fallback (`swap.fallback_at_start`), or a camera has no last good model; and MemoryError, as
    another start may find more.
    """
    with _as_config_error(path, OSError, RecursionError):
        return _prepare_start(path)


def _prepare_start(path: Path, takes_values: bool = True) -> Plan:
    file = ConfigFile(path, Config)
    found, problems = file.validate()
    if found is None:
        raise file.error(problems)
    config, values = with_rollout(file, resolved(found, path.parent), takes_values and not problems)
    last_good = LastGood(folder_of(config))
    settings = _kept(config, None)
    plan = _plan(path, config, settings, None, problems, values=values)
    if plan is not None:
        problems = _refused_before(plan, last_good) if config.swap.fallback_at_start else []
        if not problems:
            return plan
        close_all([*plan.loaded_models.values(), *plan.names.values()])
    models = [problem for problem in problems if isinstance(problem, ModelProblem)]
    if values and len(models) < len(problems):
        log.warning(LEFT_OUT, *problems[0].shown)
        return _prepare_start(path, takes_values=False)
    error = file.error(problems)
    if not config.swap.fallback_at_start or len(models) < len(problems):
        raise error
    try:
        fallbacks = last_good.addresses({camera for problem in models for camera in problem.cameras})
    except NoLastGoodError as nothing:
        log.info("%s", nothing)
        raise error from None
    others: list[Problem] = []
    plan = _plan(path, config, settings, None, others, fallbacks, values=values)
    if plan is None:
        log.error("the last good model cannot be used either: %s", others[0].found)
        raise error
    return replace(plan, refused="; ".join(str(mistake) for mistake in error.mistakes))


def _refused_before(plan: Plan, last_good: LastGood) -> list[Problem]:
    """Return a problem for each model that failed on live frames and has not been in use since."""
    refused = last_good.read().refused
    addresses = addresses_of(plan.config)
    failed = {
        addresses[camera]: refused[loaded.model.digest]
        for camera, loaded in plan.loaded_models.items()
        if loaded.model.digest in refused
    }
    expected = "a model that passes its trial (a reload tries it again)"
    return [model_problem(plan.config, addresses, address, reason, expected) for address, reason in failed.items()]


def replan(config: Config, running: Plan, settings: Settings | None = None, values: Values | None = None) -> Plan:
    """Load what a config other than the file's names. Raises PlanError.

    settings: those of `set`; values: those of a rollout that are in the config; None: as they are.
    """
    problems: list[Problem] = []
    wanted = running.settings if settings is None else settings
    kept = running.values if values is None else values
    plan = _plan(running.path, config, wanted, running, problems, strict=settings is not None, values=kept)
    if plan is None and values and not isinstance(problems[0], ModelProblem):
        raise PlanError("{}: found {}, expected {}".format(*problems[0].shown))
    if plan is None:
        raise PlanError(f"{problems[0].found}, expected {problems[0].expected}")
    return plan


def _plan(
    path: Path,
    base: Config,
    settings: Settings,
    running: Plan | None,
    problems: list[Problem],
    fallbacks: Mapping[str, str] = MappingProxyType({}),
    strict: bool = False,
    *,
    values: Values,
) -> Plan | None:
    """Load what a config names, with fallback models for some cameras; None, and problems, where it cannot be used.

    settings: those that do not fit the config's models are a problem if `strict`, and left out with a warning if not.
    """
    wrong = {problem.path[0] for problem in problems}
    addresses = {**addresses_of(base), **fallbacks}
    models = {} if wrong & {"model", "trust"} else verified_models(base, addresses, problems)
    by_camera = {name: models[at].model for name, at in addresses.items() if at in models}
    settings, misfits = fitting(settings, base, by_camera)
    if strict:
        problems += misfits
    for misfit in misfits if not strict else ():
        log.warning("set by command, and left out now: %s: found %s, expected %s", *misfit.shown)
    config = with_settings(base, settings, by_camera)
    if models and not fallbacks and "label_map" not in wrong:  # the labels are those of the config's own models
        _check_labels(config, by_camera, problems)
    _check_data_folder(config, problems)
    _check_updates(config, problems)
    if "mqtt" not in wrong:
        _check_login(config, problems)
        _check_tls(config, problems)
    if "web" not in wrong:
        _check_token(config, problems)
    made = {name: _source(name, camera, by_camera.get(name), problems) for name, camera in config.cameras.items()}
    sources = {name: source for name, source in made.items() if source is not None}
    large = {name: SourceSpec.of_pictures(camera) for name, camera in config.cameras.items()}
    picture_sources = {name: StreamSource(spec) for name, spec in large.items() if spec is not None}
    backend = None if "backend" in wrong else backend_of(config, problems)
    if backend is None:
        return None
    same_backend = running is not None and running.config.backend == config.backend
    reusable = list(running.loaded_models.values()) if running is not None and same_backend else []
    loaded_models = models_of(config, addresses, models, backend, reusable, problems)
    names = _names(config, by_camera, backend, running, problems) if models else {}
    if problems:
        close_all(
            [*loaded_models.values(), *names.values()], but=[*reusable, *(running.names.values() if running else ())]
        )
        return None
    return Plan(
        *(path, base, settings, config, digest(config), loaded_models, sources, names),
        picture_sources=picture_sources,
        values=values,
    )


def _names(
    config: Config, models: Mapping[str, Model], backend: Backend, running: Plan | None, problems: list[Problem]
) -> dict[str, LoadedModel]:
    """Load the models of `object_names`; those of a running plan stay until a restart, others are only checked."""
    if running is None:
        return load_names(config, models, backend, problems)
    if config.object_names != running.config.object_names:
        close_all(load_names(config, models, backend, problems).values())
    return running.names


def _check_labels(config: Config, models: Mapping[str, Model], problems: list[Problem]) -> None:
    """Check the labels that the config names against those of the models, by camera."""
    own = list({model.digest: model for model in models.values()}.values())
    labels = list(dict.fromkeys(label for model in own for label in model.labels))
    names = ", ".join(_names_of(own))
    for label in unknown_labels(config.label_map, own)[:MOST_MISTAKES]:
        known = difflib.get_close_matches(label, labels, n=1) or labels
        expected = f"`{known[0]}`" if len(known) == 1 else f"one of {', '.join(known)}"
        problems.append(Problem(("label_map", label), f"the label {label!r}, which {names} does not have", expected))
    problems += object_problems(config, models)


def _names_of(models: list[Model]) -> list[str]:
    """Return the models' names, with the first digits of the digest where several have the same."""
    named = {model.digest: model.name for model in models}
    shared = {name for name in named.values() if list(named.values()).count(name) > 1}
    return [f"{name} ({digest[:12]})" if name in shared else name for digest, name in named.items()]


def _check_login(config: Config, problems: list[Problem]) -> None:
    for secret_of in (username_of, password_of):
        try:
            secret_of(config.mqtt)
        except SecretError as error:
            problems.append(Problem(("mqtt", error.key), str(error), HOLDS_LOGIN))


def _check_token(config: Config, problems: list[Problem]) -> None:
    try:
        token_of(config.web)
    except SecretError as error:
        problems.append(Problem(("web", error.key), str(error), "at least 16 letters, digits or `-._~+/=`"))


def _check_tls(config: Config, problems: list[Problem]) -> None:
    if not config.mqtt.tls.enabled:
        return
    try:
        context_of(config.mqtt.tls)
    except TlsError as error:
        problems.append(Problem(("mqtt", "tls", error.key), str(error), "a PEM file that TLS can use"))


def _check_data_folder(config: Config, problems: list[Problem]) -> None:
    """Check that no file is in the place of the folder, which the service creates."""
    folder = config.data_folder
    if folder is not None and exists(folder) and not is_folder(folder):
        problems.append(Problem(("data_folder",), f"{folder}, which is no folder", "a folder"))


def _check_updates(config: Config, problems: list[Problem]) -> None:
    """Check that updates of models have a place, that a fetched one could be used, and what rollouts may order."""
    place, updates = ("swap", "updates"), config.swap.updates
    if updates != "folder" and config.swap.model_folder is None:
        problems.append(Problem(place, f"`{updates}` without `swap.model_folder`", "a folder for what is fetched"))
    if updates == "download" and config.trust.public_key_files:
        found = "`download` with `trust.public_key_files`: what is downloaded has no signature"
        problems.append(Problem(place, found, "`known` or `folder`"))
    for key in config.swap.rollout_keys:
        if key.split(".")[0] == "swap" or not is_key(Config, key) or applies(Config, key) is not Applies.AT_ONCE:
            expected = "a key that a reload applies at once, such as `state` or `log.level`, none of `swap`"
            problems.append(Problem(("swap", "rollout_keys"), f"`{key}`", expected))


def _source(name: str, camera: CameraConfig, model: Model | None, problems: list[Problem]) -> Source | None:
    try:
        camera.address.login()
        return make_source(SourceSpec.of(camera, model))
    except SecretError as error:
        problems.append(Problem(("cameras", name, error.key), str(error), HOLDS_LOGIN))
    except SourceError as error:
        problems.append(Problem(("cameras", name, "source"), str(error), "the address of a source"))
    return None
