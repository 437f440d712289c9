"""`edgemeta check`: valid or not, every mistake at once, without cameras and without a broker."""

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from edgemeta.cli.service import check
from edgemeta.daemon.config.loader import ConfigError
from edgemeta.daemon.service.plan import prepare
from edgemeta.model.file import save
from edgemeta.model.zoo import find
from tests.daemon.conftest import colour_model


def lines_of(path: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        prepare(path)
    return [line.removeprefix(f"{path}:") for line in str(caught.value).splitlines()]


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_valid_config_is_shown_without_logins_and_paths(write_config: Any) -> None:
    path = write_config(
        cameras={"door": {"source": "rtsp://user:geheim@127.0.0.1/cam"}, "hall": {"source": 0}},
        mqtt={"username": "ali", "password": "geheim"},
    )
    result = CliRunner().invoke(check, [str(path)])
    assert result.exit_code == 0
    assert "would run colour (" in result.output
    assert "on reference for door (rtsp://127.0.0.1), hall (0)" in result.output
    assert "geheim" not in result.output


def test_a_model_s_line_is_printed_as_it_takes_that_very_file_only(write_config: Any, model_file: Path) -> None:
    digest = sha256(model_file.read_bytes()).hexdigest()
    cameras = {"a": {"source": "synthetic://"}, "b": {"source": "synthetic://", "model": "resnet8-cifar10"}}
    _, *lines = CliRunner().invoke(check, [str(write_config(cameras=cameras))]).output.splitlines()
    shipped = find("resnet8-cifar10")
    shipped_digest = sha256(shipped.read_bytes()).hexdigest()
    assert lines == [
        f"model: {model_file}@sha256:{digest}  # colour, {model_file}",
        f"cameras.b.model: resnet8-cifar10@sha256:{shipped_digest}  # resnet8-cifar10, {shipped}",
    ]
    updates = yaml.safe_load(lines[0])
    assert CliRunner().invoke(check, [str(write_config(**updates))]).exit_code == 0


def test_another_file_than_the_digest_says_is_reported_at_its_line(write_config: Any, model_file: Path) -> None:
    wanted = sha256(model_file.read_bytes()).hexdigest()
    path = write_config(model=f"{model_file.name}@sha256:{wanted}")
    assert CliRunner().invoke(check, [str(path)]).exit_code == 0, "a relative path is meant from the config's folder"
    save(replace(colour_model(), name="another"), model_file)
    found = sha256(model_file.read_bytes()).hexdigest()
    (line,) = lines_of(path)
    assert line == f"9: model: found {model_file}: sha256 {found}, expected sha256 {wanted}"
    (line,) = lines_of(write_config(model="resnet8-cifar10@sha256:12"))
    assert "model: found resnet8-cifar10@sha256:12, expected a name or path, `@sha256:` and 64 hexadecimal" in line


def test_a_video_that_does_not_exist_is_a_warning(write_config: Any, tmp_path: Path) -> None:
    (tmp_path / "there.avi").write_bytes(b"")
    sources = {"a": "clip.avi", "b": "there.avi", "c": 0, "d": f"image://{tmp_path}/night", "e": "synthetic://"}
    path = write_config(cameras={name: {"source": source} for name, source in sources.items()})
    result = CliRunner().invoke(check, [str(path)])
    assert result.exit_code == 0, "the service starts without it, and waits for it"
    expected = "which does not exist, expected a file or folder for the camera to open"
    assert result.stderr.splitlines() == [
        f"edgemeta: warning: {path}:{line}: cameras.{name}.source: found {tmp_path / file}, {expected}"
        for line, name, file in ((5, "a", "clip.avi"), (11, "d", "night"))
    ]
    warnings = json.loads(CliRunner().invoke(check, ["--json", str(path)]).stdout)["warnings"]
    assert [(each["key"], each["line"]) for each in warnings] == [("cameras.a.source", 5), ("cameras.d.source", 11)]


def test_json(write_config: Any, model_file: Path) -> None:
    result = CliRunner().invoke(check, ["--json", str(write_config())])
    assert result.exit_code == 0
    summary = json.loads(result.output)
    assert summary["valid"] is True
    assert summary["backend"] == "reference"
    digest = sha256(model_file.read_bytes()).hexdigest()
    assert summary["models"]["front"] == {
        "name": "colour",
        "sha256": digest,
        "file": str(model_file),
        "address": f"{model_file}@sha256:{digest}",
    }
    result = CliRunner().invoke(check, ["--json", str(write_config(top_k=0))])
    assert result.exit_code == 78
    updates = json.loads(result.output)
    assert updates["valid"] is False
    assert updates["mistakes"] == [
        {"file": str(write_config(top_k=0)), "line": 13, "key": "top_k", "found": "0", "expected": "at least 1"}
    ]


def test_paths_are_relative_to_the_configs_folder(tmp_path: Path, model_file: Path, colours: Path) -> None:
    text = f"model: {model_file.name}\nbackend: {{name: reference}}\ncameras: {{a: {{source: colours}}}}\n"
    plan = prepare(write(tmp_path / "c.yaml", text))
    assert plan.loaded_models["a"].model.name == "colour"
    plan.sources["a"].open()
    assert plan.sources["a"].read().pixels.shape == (48, 64, 3)


def test_mistakes_of_form_and_of_content_come_together(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_text("a text file\n")
    path = write(
        tmp_path / "c.yaml",
        """\
model: model.safetensors
colour: red
backend:
  name: gpu
cameras:
  a: {source: "gopher://x"}
  b: {source: "rtsp://u:geheim@h/x", fps: 3}
mqtt:
  username: u
  password_file: gone
""",
    )
    lines = lines_of(path)
    assert [line.partition(": found ")[0] for line in lines] == [
        "1: model",
        "2: colour",
        "4: backend.name",
        "6: cameras.a.source",
        "7: cameras.b.source",
        "10: mqtt.password_file",
    ]
    assert "unknown backend 'gpu'" in lines[2]
    assert "source gopher://x has an unknown scheme" in lines[3]
    assert "sets its own frame rate" in lines[4]
    assert "geheim" not in "\n".join(lines)
    assert f"password file {tmp_path}/gone cannot be read" in lines[5]


@pytest.mark.parametrize("cut", [0, 1, 7, 100, -1])
def test_truncated_models_are_mistakes_of_the_config(write_config: Any, model_file: Path, cut: int) -> None:
    model_file.write_bytes(model_file.read_bytes()[:cut])
    lines = lines_of(write_config())
    assert len(lines) == 1
    assert f"model: found {model_file}: " in lines[0]


def test_a_model_that_does_not_exist(write_config: Any) -> None:
    lines = lines_of(write_config(model="resnet999"))
    assert "model: found resnet999: no such model file or shipped model" in lines[0]


def test_options_a_backend_does_not_have(write_config: Any) -> None:
    lines = lines_of(write_config(backend={"name": "reference", "options": {"speed": 3}}))
    assert len(lines) == 1
    assert "backend.options: found " in lines[0]
    assert "speed" in lines[0]


@pytest.mark.parametrize("content", ["cameras: {}\n", "{{{"])
def test_run_ends_with_78_and_without_a_traceback(run_daemon: Any, tmp_path: Path, content: str) -> None:
    daemon = run_daemon(write(tmp_path / "c.yaml", content))
    assert daemon.process.wait(60) == 78
    assert daemon.said.startswith(f"edgemeta: {tmp_path}/c.yaml:1: ")
    assert "Traceback" not in daemon.said


def test_run_without_the_file(run_daemon: Any, tmp_path: Path) -> None:
    daemon = run_daemon(tmp_path / "gone.yaml")
    assert daemon.process.wait(60) == 78
    assert (
        "gone.yaml: found a file that cannot be read: No such file or directory, expected a config file" in daemon.said
    )


def test_a_name_with_a_line_break_is_reported_in_one_line(write_config: Any) -> None:
    """A log, a status and a terminal need one line."""
    (line,) = lines_of(write_config(model="a\nb\x1b[2J"))
    assert line.startswith("9: model: found a\\nb\\x1b[2J: no such model file")


def test_labels_that_the_model_does_not_have_are_mistakes(write_config: Any) -> None:
    found = lines_of(write_config(label_map={"red": "warm", "gren": "cold", "xyz": "cold"}))
    assert [line.partition(" ")[2] for line in found] == [
        "label_map.gren: found the label 'gren', which colour does not have, expected `green`",
        "label_map.xyz: found the label 'xyz', which colour does not have, expected one of red, green, blue",
    ]


def test_a_camera_s_own_state_is_checked_as_the_service_s(write_config: Any) -> None:
    own = {"source": "synthetic://", "state": {"enter_score": 0.3, "leave_score": 0.5}, "publish": {"frame": "change"}}
    found = lines_of(write_config(cameras={"a": own}, state={"min_frames": 1, "window_frames": 2}))
    assert [line.partition(" ")[2] for line in found] == [
        "cameras.a.publish.frame: found an unknown key, expected `frames`",
        "cameras.a.state: found a mapping, expected `leave_score` (0.5) no greater than `enter_score` (0.3)",
        "state: found a mapping, expected `min_frames` (1) more than half of `window_frames` (2) and no greater "
        "than it, or two labels could win at once",
    ]


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"swap": {"updates": "known"}}, "`known` without `swap.model_folder`, expected a folder"),
        (
            {"swap": {"updates": "download", "model_folder": "."}, "trust": {"public_key_files": ["key.pem"]}},
            "`download` with `trust.public_key_files`: what is downloaded has no signature, expected `known` or",
        ),
    ],
)
def test_updates_that_could_not_be_used_are_mistakes(write_config: Any, keys: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=r"swap\.updates") as caught:
        prepare(write_config(**keys))
    assert any(reason in str(each) for each in caught.value.mistakes)
