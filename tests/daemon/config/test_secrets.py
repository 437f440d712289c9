"""User names and passwords from the config, files and the environment."""

import os
from pathlib import Path

import pytest

from edgemeta.daemon.config.broker import MqttConfig
from edgemeta.daemon.config.secrets import SecretError, password_of, username_of


def test_passwords_come_from_the_config_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "password"
    file.write_text("from file\nsecond line\n")
    monkeypatch.setenv("BROKER_PASSWORD", "from environment")
    assert password_of(MqttConfig()) is None
    assert username_of(MqttConfig()) is None
    assert username_of(MqttConfig(username="u")) == "u"
    assert username_of(MqttConfig(username_file=str(file))) == "from file"
    assert username_of(MqttConfig(username_env="BROKER_PASSWORD")) == "from environment"
    with pytest.raises(SecretError, match=r"user name file .*gone cannot be read"):
        username_of(MqttConfig(username_file=str(tmp_path / "gone")))
    assert password_of(MqttConfig.model_validate({"username": "u", "password": "plain"})) == "plain"
    assert password_of(MqttConfig(username="u", password_file=str(file))) == "from file"
    assert password_of(MqttConfig(username="u", password_env="BROKER_PASSWORD")) == "from environment"
    with pytest.raises(SecretError, match="gone cannot be read: No such file"):
        password_of(MqttConfig(username="u", password_file=str(tmp_path / "gone")))
    with pytest.raises(SecretError, match="ABSENT is not set"):
        password_of(MqttConfig(username="u", password_env="ABSENT"))
    file.write_text("")
    with pytest.raises(SecretError, match="empty first line"):
        password_of(MqttConfig(username="u", password_file=str(file)))
    file.write_bytes(b"\xff")
    with pytest.raises(SecretError, match="not UTF-8 text"):
        password_of(MqttConfig(username="u", password_file=str(file)))


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"\xef\xbb\xbfsecret\n", "begins with a byte order mark"),
        (b"\xff\xfes\0e\0", "is not UTF-8 text"),
        (b"se\0cret\n", "has a control character"),
        (b"se\tcret\n", "has a control character"),
        (b"x" * 70_000, "has more than 65,536 bytes"),
        (b"\nsecret\n", "has an empty first line"),
    ],
)
def test_a_file_whose_first_line_is_no_secret(tmp_path: Path, content: bytes, found: str) -> None:
    file = tmp_path / "password"
    file.write_bytes(content)
    with pytest.raises(SecretError, match=found) as error:
        password_of(MqttConfig(username="u", password_file=str(file)))
    assert "cret" not in str(error.value)


@pytest.mark.parametrize("content", ["p\u2028w\n", "p w\r\n", "pw", "pässü\n"])
def test_a_line_ends_at_its_line_feed_only(tmp_path: Path, content: str) -> None:
    file = tmp_path / "password"
    file.write_bytes(content.encode())
    assert password_of(MqttConfig(username="u", password_file=str(file))) == content.rstrip("\r\n")


def test_pipes_and_devices_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, found in (
        (str(tmp_path / "pipe"), "is a pipe"),
        ("/dev/zero", "is a device"),
        (str(tmp_path), "a folder"),
    ):
        with pytest.raises(SecretError, match=f"{found}, expected a regular file"):
            password_of(MqttConfig(username="u", password_file=path))


def test_a_variable_that_is_not_utf_8(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "BROKER_PASSWORD", "p\udcffw")
    with pytest.raises(SecretError, match="variable BROKER_PASSWORD has a control character or invalid text"):
        password_of(MqttConfig(username="u", password_env="BROKER_PASSWORD"))


@pytest.mark.parametrize("value", ["${X}", "{MQTT_PASSWORD}", "!secret mqtt"])
def test_a_variable_of_another_program_is_no_password(value: str) -> None:
    with pytest.raises(ValueError, match="`password_env` or `password_file` instead of a variable in `password`"):
        MqttConfig.model_validate({"username": "u", "password": value})
