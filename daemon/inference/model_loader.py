"""Loads the models of a config: each file is verified once, each model compiled once, running models are reused."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.loader import Problem
from edgemeta.daemon.inference.loaded_model import LoadedModel, load_model
from edgemeta.daemon.inference.model_file import ModelFile, read_verified
from edgemeta.model.address import DigestError
from edgemeta.model.errors import ModelError
from edgemeta.model.signature import SignatureError, check_key
from edgemeta.plugins.api import Backend, BackendError, OptionError
from edgemeta.plugins.compile import UnsupportedLayerError
from edgemeta.plugins.frames import PlaceError
from edgemeta.plugins.registry import choose

Addresses: TypeAlias = Mapping[str, str]
"""By camera: name or path of its model, with the required digest, if any."""

Verified: TypeAlias = dict[str, ModelFile]
"""Model files by name or path."""


@dataclass(frozen=True)
class ModelProblem(Problem):
    """A model that cannot be used, at the key that names it. cameras: those that the config assigns it to."""

    cameras: tuple[str, ...] = ()


def addresses_of(config: Config) -> dict[str, str]:
    """Return the model that the config assigns to each camera."""
    return {camera: config.model_of(camera) for camera in config.cameras}


def verified_models(config: Config, addresses: Addresses, problems: list[Problem]) -> Verified:
    """Verify each distinct model once; adds a problem for each that cannot be used."""
    trusted = _trusted_keys(config, problems)
    models: Verified = {}
    for address in dict.fromkeys(addresses.values()):
        if trusted is None:
            break
        try:
            models[address] = read_verified(address, trusted)
        except DigestError as error:
            problems.append(model_problem(config, addresses, address, error.found, error.expected))
        except ModelError as error:
            expected = "a shipped model's name or a model file"
            problems.append(model_problem(config, addresses, address, str(error), expected))
        except SignatureError as error:
            problems.append(model_problem(config, addresses, address, str(error), "a signed model"))
    return models


def model_problem(config: Config, addresses: Addresses, address: str, found: str, expected: str) -> ModelProblem:
    """Return the problem of a model, at the first key of the config that names it."""
    cameras = tuple(camera for camera, wanted in addresses.items() if wanted == address)
    shared = config.cameras[cameras[0]].model is None
    return ModelProblem(("model",) if shared else ("cameras", cameras[0], "model"), found, expected, cameras)


def backend_of(config: Config, problems: list[Problem]) -> Backend | None:
    """Choose the backend; adds a problem where it cannot run, and returns None."""
    try:
        return choose(config.backend.name)
    except BackendError as error:
        problems.append(Problem(("backend", "name"), str(error), "`auto` or a backend that can run here"))
        return None


def models_of(
    config: Config,
    addresses: Addresses,
    models: Verified,
    backend: Backend,
    running: Collection[LoadedModel],
    problems: list[Problem],
) -> dict[str, LoadedModel]:
    """Return the loaded model of each camera, reusing running ones with the same digest. Adds to the problems."""
    loaded_models = {loaded.model.digest: loaded for loaded in running}
    for address, file in models.items():
        if file.model.digest not in loaded_models:
            try:
                made = load_model(
                    *(file.model, backend, config.backend.options, config.backend.fallback, file.verify_ns),
                    place=config.backend.preprocess,
                )
            except PlaceError as error:
                expected = "`cpu`, or a backend that preprocesses frames on its device"
                problems.append(Problem(("backend", "preprocess"), str(error), expected))
                break
            except OptionError as error:
                problems.append(Problem(("backend", "options"), str(error), "options that this backend has"))
                break
            except BackendError as error:
                expected = "a model whose self-test passes on this backend"
                if isinstance(error, UnsupportedLayerError):
                    expected = "a model whose layers this backend supports, or `backend.fallback: cpu`"
                problems.append(model_problem(config, addresses, address, f"{file.path}: {error}", expected))
                continue
            except BaseException:  # such as too little memory: those that were loaded are not used then
                close_all(loaded_models.values(), but=running)
                raise
            loaded_models[file.model.digest] = made
        loaded_models[file.model.digest].file = file
    digests = {camera: models[name].model.digest for camera, name in addresses.items() if name in models}
    return {camera: loaded_models[digest] for camera, digest in digests.items() if digest in loaded_models}


def close_all(loaded_models: Iterable[LoadedModel], but: Iterable[LoadedModel] = ()) -> None:
    """Close models, each once, except those in `but`."""
    kept = {id(loaded) for loaded in but}
    for loaded in {id(loaded): loaded for loaded in loaded_models}.values():
        if id(loaded) not in kept:
            loaded.close()


def _trusted_keys(config: Config, problems: list[Problem]) -> list[Path] | None:
    """Return the files of trusted keys after checking them; None, and a problem, where one cannot be used."""
    paths = [Path(key) for key in config.trust.public_key_files]
    for path in paths:
        try:
            check_key(path)
        except SignatureError as error:
            problems.append(Problem(("trust", "public_key_files"), str(error), "files of Ed25519 public keys (PEM)"))
            return None
    return paths
