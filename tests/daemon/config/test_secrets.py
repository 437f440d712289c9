"""User names and passwords from the config, files and the environment."""

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
