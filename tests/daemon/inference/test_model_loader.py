"""Which network each camera gets, and every mistake with the key that it belongs to."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgemeta.daemon.config.loader import ConfigError, Mistake
from edgemeta.daemon.inference.model_loader import close_all
from edgemeta.daemon.service.plan import Plan, PlanError, prepare, replan
from edgemeta.kernels.cpu.library import LibraryError
from edgemeta.kernels.cpu.program import OpenError, Program
from edgemeta.model.file import save
from edgemeta.model.layers import AveragePool
from edgemeta.model.self_test import with_self_test
from edgemeta.plugins.api import BackendError
from tests.daemon.conftest import colour_model
from tests.plugins.choosy import without

CAMERA = {"source": "synthetic://"}


def mistakes(path: Path, running: Plan | None = None) -> list[Mistake]:
    with pytest.raises(ConfigError) as raised:
        prepare(path, running)
    return list(raised.value.mistakes)


@pytest.fixture
def plan_of(write_config: Callable[..., Path]) -> Any:
    """Prepares configs, and closes what it made."""
    made: list[Plan] = []

    def make(running: Plan | None = None, **keys: Any) -> Plan:
        made.append(prepare(write_config(**keys), running))
        return made[-1]

    yield make
    close_all(loaded for plan in made for loaded in plan.loaded_models.values())


def test_the_same_content_is_one_model_whatever_its_name(plan_of: Any, model_file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.safetensors"
    shutil.copyfile(model_file, copy)
    plan = plan_of(cameras={"a": CAMERA, "b": CAMERA | {"model": str(copy)}, "c": CAMERA | {"model": str(model_file)}})
    assert plan.loaded_models["a"] is plan.loaded_models["b"] is plan.loaded_models["c"]


def test_running_models_are_reused_unless_the_backend_is_another(plan_of: Any) -> None:
    running = plan_of(cameras={"a": CAMERA})
    assert plan_of(running, cameras={"a": CAMERA | {"fps": 1}}).loaded_models == running.loaded_models
    other = plan_of(running, cameras={"a": CAMERA}, backend={"name": "cpu"})
    assert other.loaded_models["a"] is not running.loaded_models["a"]
    assert other.loaded_models["a"].backend == "cpu"


def test_each_model_that_cannot_be_used_is_reported_once_with_the_first_key_that_names_it(
    write_config: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "text").write_text("no model")
    cameras = {"a": CAMERA | {"model": "away"}, "b": CAMERA | {"model": "text"}, "c": CAMERA | {"model": "away"}}
    found = mistakes(write_config(cameras=cameras, top_k=0))
    assert sorted(mistake.key for mistake in found) == ["cameras.a.model", "cameras.b.model", "top_k"]


def test_a_model_that_no_camera_uses_is_not_loaded(plan_of: Any, model_file: Path) -> None:
    plan = plan_of(model="away", cameras={"a": CAMERA | {"model": str(model_file)}})
    assert plan.loaded_models["a"].model.name == "colour"


def test_layers_that_the_backend_does_not_support_run_on_cpu_or_the_model_is_refused(
    plan_of: Any,
    write_config: Callable[..., Path],
    model_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    backend = without(AveragePool)
    monkeypatch.setattr("edgemeta.daemon.inference.model_loader.choose", lambda name: backend)
    running = plan_of(backend={"name": "choosy", "options": {"number": 1}})
    assert running.loaded_models["front"].backend == "choosy"
    assert [record.levelname for record in caplog.records if "layers run on cpu" in record.getMessage()] == ["WARNING"]
    assert [dict(options) for options in backend.options] == [{"number": 1}]
    path = write_config(backend={"name": "choosy", "fallback": "refuse"})
    (mistake,) = mistakes(path, running)
    assert str(mistake) == (
        f"{path}:{line_of(path, 'model:')}: model: found {model_file}: backend choosy: layer 'pool': AveragePool is "
        "not supported, expected a model whose layers this backend supports, or `backend.fallback: cpu`"
    )
    (mistake,) = mistakes(write_config(backend={"fallback": "gpu"}))
    assert (mistake.key, mistake.found, mistake.expected) == ("backend.fallback", "the text 'gpu'", "'cpu' or 'refuse'")


@pytest.mark.parametrize("name", ["cpu", "reference"])
def test_a_backend_that_does_not_preprocess_frames_says_so(write_config: Callable[..., Path], name: str) -> None:
    path = write_config(backend={"name": name, "preprocess": "device"})
    (mistake,) = mistakes(path)
    assert mistake.key == "backend.preprocess"
    assert mistake.found == f"backend {name} does not preprocess frames on its device for model colour"
    assert mistake.expected == "`cpu`, or a backend that preprocesses frames on its device"
    (mistake,) = mistakes(write_config(backend={"preprocess": "gpu"}))
    assert (mistake.found, mistake.expected) == ("the text 'gpu'", "'cpu' or 'device'")


def line_of(path: Path, key: str) -> int:
    lines = path.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.startswith(key))


def test_an_invalid_trusted_key(write_config: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "maker.pub").write_text("no key")
    (mistake,) = mistakes(write_config(trust={"public_key_files": ["maker.pub"]}))
    assert (mistake.key, mistake.found) == (
        "trust.public_key_files",
        f"{tmp_path / 'maker.pub'}: not an Ed25519 public key (PEM)",
    )


def test_a_model_that_fails_its_self_test_is_closed(
    write_config: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgemeta.plugins.reference.backend import BACKEND

    good = with_self_test(colour_model())
    assert good.self_test is not None
    expected = good.self_test.expected.copy()
    expected[3, 1] += 1
    save(replace(good, self_test=replace(good.self_test, expected=expected)), tmp_path / "wrong.safetensors")
    sessions = []
    compiled = type(BACKEND).compile
    monkeypatch.setattr(
        type(BACKEND), "compile", lambda self, *rest: sessions.append(compiled(self, *rest)) or sessions[-1]
    )
    (mistake,) = mistakes(write_config(model="wrong.safetensors"))
    assert (mistake.key, mistake.line) == ("model", 9)
    assert mistake.found.startswith(f"{tmp_path / 'wrong.safetensors'}: backend reference gives different outputs")
    assert "for self-test input 4 of colour (" in mistake.found
    assert mistake.expected == "a model whose self-test passes on this backend"
    (session,) = sessions
    with pytest.raises(BackendError):
        session.run(good.self_test.batch[:1])


def test_a_wrong_option_is_reported_once_however_many_models_there_are(
    write_config: Callable[..., Path], model_file: Path
) -> None:
    cameras = {"a": CAMERA, "b": CAMERA | {"model": "resnet8-cifar10"}}
    (mistake,) = mistakes(write_config(cameras=cameras, backend={"name": "cpu", "options": {"isa": "mmx"}}))
    assert mistake.key == "backend.options"


@pytest.mark.parametrize(
    ("error", "key"),
    [(OpenError("this machine lacks avx2"), "backend.options"), (LibraryError("out of memory"), "cameras.b.model")],
)
def test_a_missing_instruction_set_is_an_error_of_the_option_and_an_unsupported_layer_of_the_model(
    write_config: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, error: LibraryError, key: str
) -> None:
    opened: Any = Program

    def program(model: Any, isa: str, threads: int, forms: Any) -> Any:
        if model.name != "colour":
            raise error
        return opened(model, isa, threads, forms=forms)

    monkeypatch.setattr("edgemeta.plugins.cpu.backend.Program", program)
    cameras = {"a": CAMERA, "b": CAMERA | {"model": "resnet8-cifar10"}}
    (mistake,) = mistakes(write_config(cameras=cameras, backend={"name": "cpu"}))
    assert mistake.key == key


def test_another_config_than_the_files_is_reported_in_one_sentence(plan_of: Any) -> None:
    running = plan_of(cameras={"a": CAMERA})
    with pytest.raises(PlanError, match=r"away: no such model file.*, expected a shipped model's name or a model file"):
        replan(running.config.model_copy(update={"model": "away"}), running)
    assert replan(running.config.model_copy(update={"top_k": 1}), running).loaded_models == running.loaded_models
