"""Access to the page: a token if other machines can reach it, in one of three places, and never shown."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from edgemeta.daemon.config.config import Config, digest
from edgemeta.daemon.config.loader import ConfigError
from edgemeta.daemon.config.secrets import SecretError, token_of
from edgemeta.daemon.config.web import WebConfig
from edgemeta.daemon.service.plan import prepare

TOKEN = "0123456789abcdef"


def said(web: dict[str, Any], write_config: Any) -> str:
    """The mistake of a config with this section."""
    with pytest.raises(ConfigError) as caught:
        prepare(write_config(web=web))
    (mistake,) = caught.value.mistakes
    return f"{mistake.key}: found {mistake.found}, expected {mistake.expected}"


@given(st.ip_addresses())
def test_an_address_that_other_machines_reach_needs_a_token(address: Any) -> None:
    try:
        config = WebConfig(host=str(address))
    except ValidationError:
        assert not address.is_loopback
        WebConfig.model_validate({"host": str(address), "token": TOKEN})
    else:
        assert address.is_loopback
        assert config.loopback


def test_the_error_names_the_address_and_the_missing_key(write_config: Any) -> None:
    assert said({"host": "0.0.0.0"}, write_config) == (
        "web: found a mapping, expected `token_file` or `token_env` beside `host: 0.0.0.0`, which other machines reach"
    )


@pytest.mark.parametrize("host", ["localhost", "", "127.1", "999.0.0.1", "example.org"])
def test_a_host_is_an_address(host: str, write_config: Any) -> None:
    expected = f"web.host: found the text '{host}', expected an IP address, for example 127.0.0.1 or 0.0.0.0"
    assert said({"host": host}, write_config) == expected


def test_the_token_is_given_only_once(write_config: Any) -> None:
    web = {"token": TOKEN, "token_env": "PAGE_TOKEN"}
    assert said(web, write_config) == "web: found a mapping, expected only one of token, token_env"


def test_the_token_comes_from_the_config_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}-file\nsecond line\n")
    monkeypatch.setenv("PAGE_TOKEN", f"{TOKEN}-environment")
    assert token_of(WebConfig()) is None
    assert token_of(WebConfig.model_validate({"token": TOKEN})) == TOKEN
    assert token_of(WebConfig(token_file=str(tmp_path / "token"))) == f"{TOKEN}-file"
    assert token_of(WebConfig(token_env="PAGE_TOKEN")) == f"{TOKEN}-environment"
    with pytest.raises(SecretError, match=r"token file .*gone cannot be read"):
        token_of(WebConfig(token_file=str(tmp_path / "gone")))
    with pytest.raises(SecretError, match="ABSENT is not set, expected the token"):
        token_of(WebConfig(token_env="ABSENT"))


@pytest.mark.parametrize(
    "token", ["", "short", "0123456789abcde", "fifteen letters, and a blank", "ünïcödé0123456789ab"]
)
def test_an_invalid_token_is_a_mistake_and_is_not_shown(token: str, write_config: Any, tmp_path: Path) -> None:
    expected = (
        "web.{key}: found a token that is too short, or has invalid characters, "
        "expected at least 16 letters, digits or `-._~+/=`"
    )
    assert said({"token": token}, write_config) == expected.format(key="token")
    if token:
        (tmp_path / "token").write_text(token)
        assert said({"token_file": "token"}, write_config) == expected.format(key="token_file")


def test_a_token_of_another_type_is_not_shown(write_config: Any) -> None:
    assert said({"token": [TOKEN]}, write_config) == "web.token: found a value (not shown), expected text"


def test_no_dump_of_the_config_contains_the_token() -> None:
    cameras = {"front": {"source": "synthetic://"}}
    one, other = (Config.model_validate({"cameras": cameras, "web": {"token": TOKEN + end}}) for end in ("a", "b"))
    assert TOKEN not in json.dumps(one.model_dump(mode="json")) + repr(one)
    assert digest(one) == digest(other)
