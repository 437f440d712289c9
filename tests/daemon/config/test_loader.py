"""All mistakes of a config are reported at once, with file, line, key, what was found and what was expected."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.loader import ConfigError, ConfigFile
from edgemeta.model.zoo import DEFAULT

GOOD = "cameras:\n  front:\n    source: synthetic://\n"


def errors_of(tmp_path: Path, text: str | bytes) -> list[str]:
    """The reported lines about a config, without the file's path."""
    path = tmp_path / "c.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    try:
        file = ConfigFile(path, Config)
        _, problems = file.validate()
        lines = [str(mistake) for mistake in file.error(problems).mistakes]
    except ConfigError as error:
        lines = [str(mistake) for mistake in error.mistakes]
    assert all(line.startswith(f"{path}:") for line in lines)
    return [line.removeprefix(f"{path}:") for line in lines]


def test_the_smallest_config_has_the_documented_defaults(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(GOOD)
    config, problems = ConfigFile(path, Config).validate()
    assert problems == []
    assert config is not None
    assert config.model == DEFAULT
    assert config.mqtt.port == 1883
    assert config.cameras["front"].frame_timeout == 5.0


def test_all_mistakes_at_once_in_the_order_of_lines(tmp_path: Path) -> None:
    text = """\
device: a/b
modle: x
top_k: 0
cameras:
  stats:
    source: synthetic://
  front:
    source: true
    fps: fast
    lop: true
  back: {}
backend:
  options:
    threads: [1]
mqtt:
  port: "1883"
  version: 4
  base_topic: home/#
  password: geheim
state:
  min_frames: 2
"""
    camera_names = "availability, cmd, health, info, resp, stats, swap"
    assert errors_of(tmp_path, text) == [
        "1: device: found the text 'a/b', expected 1 to 64 letters (a to z), digits, '-' or '_'",
        "2: modle: found an unknown key, expected `model`",
        "3: top_k: found 0, expected at least 1",
        f"5: cameras.stats: found the name 'stats', expected a camera name other than {camera_names}",
        "8: cameras.front.source: found true, expected text",
        "9: cameras.front.fps: found the text 'fast', expected a number",
        "10: cameras.front.lop: found an unknown key, expected `loop`",
        "11: cameras.back.source: found nothing, expected this key to be given",
        "14: backend.options.threads: found a list, expected text, a number, true or false",
        "16: mqtt.port: found the text '1883', expected a whole number",
        "17: mqtt.version: found 4, expected 5 or '3.1.1'",
        "18: mqtt.base_topic: found the text 'home/#', expected topic levels joined by '/', without '+', '#' or "
        "control characters, not starting with '$'",
        "20: state: found a mapping, expected `min_frames` (2) more than half of `window_frames` (5) and no "
        "greater than it, or two labels could win at once",
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "1: found an empty file, expected a config file (YAML)"),
        ("- 1\n", "1: the whole file: found a list, expected a mapping (`key: value`)"),
        ("just text", "1: the whole file: found the text 'just text', expected a mapping (`key: value`)"),
        ("device: x\n", "1: cameras: found nothing, expected this key to be given"),
        ("cameras: {}\n", "1: cameras: found a mapping, expected at least 1 entry"),
        ("cameras: none\n", "1: cameras: found the text 'none', expected a mapping (`key: value`)"),
        (GOOD + "mqtt:\n  port: 1\n  port: 2\n", "6: mqtt.port: found a duplicate key, expected it once"),
        (
            GOOD + "mqtt:\n\tport: 1\n",
            "5: found invalid YAML (found character that cannot start any token; indent by spaces, not by a tab)",
        ),
        (GOOD + "mqtt: [\n", "4: found invalid YAML (did not find expected node content), expected"),
        (GOOD + "mqtt: *gone\n", "4: found invalid YAML (found undefined alias), expected a config file"),
        (GOOD + "mqtt: !!python/object:os.system {}\n", "4: found invalid YAML (could not determine a constructor"),
        (GOOD + "? [a]\n: 1\n", "4: found invalid YAML (found unhashable key), expected a config file"),
        (GOOD + "mqtt: {port: 99999}\n", "4: mqtt.port: found 99999, expected at most 65535"),
        (GOOD + 'device: "\\ud800"\n', "4: found invalid YAML (found invalid Unicode character escape code), expected"),
        (GOOD + 'model: "a\\0b"\n', "4: model: found a NUL character, expected text without one"),
        (
            GOOD + "top_k: 0x" + "f" * 4000 + "\n",
            "4: found invalid YAML (a number of 4,002 characters), exp",
        ),
        (GOOD + "model: " + ":".join(["59"] * 3000) + "\n", "4: found invalid YAML (a number of 8,999 characters)"),
        (GOOD + "model: " + ":".join(["59"] * 3000) + ".0\n", "4: found invalid YAML (a number of 9,001 characters)"),
        (GOOD + "model: 0000-01-01T00:00:00\n", "1: found invalid YAML ("),
        (GOOD + f"data_folder: {'a' * 300}\n", "4: data_folder: found the text 'aaa"),
        (
            GOOD + "mqtt: {username: !secret me}\n",
            "4: found invalid YAML (could not determine a constructor for the tag; a sec",
        ),
        (GOOD + '"a\\e[31m": 1\n', "4: 'a\\x1b[31m': found an unknown key, expected one of"),
        (GOOD + "    fps: 1e-9\n", "4: cameras.front.fps: found the text '1e-9', expected a number"),
        (GOOD + "    fps: 1.0e-9\n", "4: cameras.front.fps: found 1e-09, expected 0, or 0.001 to 1000"),
        (GOOD + "    fps: -1\n", "4: cameras.front.fps: found -1, expected 0, or 0.001 to 1000"),
        (GOOD + "    fps: .inf\n", "4: cameras.front.fps: found inf, expected 0, or 0.001 to 1000"),
        (
            GOOD + "    transport: udp\n",
            "2: cameras.front: found a mapping, expected `transport` for a source `rtsp://` only",
        ),
        (
            GOOD + "    snapshot_source: large.png\n",
            "2: cameras.front: found a mapping, expected `snapshot_source` rtsp://, rtmp:// or http://",
        ),
        (
            GOOD + "    decode: cuda\n",
            "2: cameras.front: found a mapping, expected `decode` for a network stream only, not `cuda` here",
        ),
        (
            GOOD + "    reduce: auto\n",
            "2: cameras.front: found a mapping, expected `reduce` for a network stream only, not `auto` here",
        ),
        (GOOD + "    transport: sctp\n", "4: cameras.front.transport: found the text 'sctp', expected 'tcp', 'udp'"),
        (
            "cameras: {a: {source: 'udp://0.0.0.0:1', username: b}}\n",
            "1: cameras.a: found a mapping, expected no `username`: udp:// has no login",
        ),
        (GOOD + "    tiles: {columns: 9}\n", "4: cameras.front.tiles.columns: found 9, expected at most 8"),
        (GOOD + "    tiles: {overlap: 1}\n", "4: cameras.front.tiles.overlap: found 1, expected at most 0.9"),
        (GOOD + "    tiles: [2, 2]\n", "4: cameras.front.tiles: found a list, expected a mapping (`key: value`)"),
        (GOOD + "stats: {interval: 0}\n", "4: stats.interval: found 0, expected more than 0"),
        (GOOD + "stats: {interval: .nan}\n", "4: stats.interval: found nan, expected a finite number"),
        (GOOD + "stats: {interval: true}\n", "4: stats.interval: found true, expected a number"),
        (GOOD + "mqtt: {host: ''}\n", "4: mqtt.host: found the text '', expected at least 1 character(s)"),
        (GOOD + "mqtt: {password: x}\n", "4: mqtt: found a mapping, expected `username` beside `password`"),
        (
            GOOD + "mqtt: {username: u, password: x, password_env: y}\n",
            "4: mqtt: found a mapping, expected only one of password, password_env",
        ),
        (
            GOOD + "mqtt: {retry: {initial_delay: 9, max_delay: 1}}\n",
            "4: mqtt.retry: found a mapping, expected `initial_delay` (9) no greater than `max_delay` (1)",
        ),
        (b"cameras:\n  \xff: 1\n", "2: found bytes that are not UTF-8 text, expected a config file (YAML)"),
        ("[" * 5_000, "1: found invalid YAML (exceeded maximum nesting depth), expected a config file"),
        ("x" * 1_000_001, " found a file that has more than 1,000,000 bytes, expected a config file"),
    ],
)
def test_one_mistake(tmp_path: Path, text: str | bytes, line: str) -> None:
    lines = errors_of(tmp_path, text)
    assert len(lines) == 1
    assert lines[0].startswith(line)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "mqtt: {password: *hunter2}\n",
            "mqtt:\n  password: !hunter2 x\n",
            "mqtt: {password: &hunter2 [x, &hunter2 y]}\n",
        ),
        *("mqtt: 'mqtt://me:hunter2@broker'\n", "cameras: {'rtsp://me:hunter2@camera': 1}\n"),
        "cameras: {front: 'rtsp://me:hunter2@camera/1'}\n",
        "cameras: {front: {source: 'rtsp://me:hunter2@camera', fps: 'http://x?token=hunter2'}}\n",
        "mqtt: {password: [hunter2]}\n",
        "web: {token: {hunter2: 1}}\n",
    ],
)
def test_no_mistake_contains_a_password(tmp_path: Path, text: str) -> None:
    assert "hunter2" not in "\n".join(errors_of(tmp_path, text))


def test_duplicate_keys_are_reported_with_other_mistakes(tmp_path: Path) -> None:
    text = GOOD + "top_k: 1\ntop_k: 2\nstats: {interval: 0}\n"
    assert errors_of(tmp_path, text) == [
        "5: top_k: found a duplicate key, expected it once",
        "6: stats.interval: found 0, expected more than 0",
    ]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone.yaml: found a file that cannot be read: No such file or directory"):
        ConfigFile(tmp_path / "gone.yaml", Config)
    with pytest.raises(ConfigError, match=r"a file that is a folder, expected a regular file"):
        ConfigFile(tmp_path, Config)


def test_secrets_are_never_shown(tmp_path: Path) -> None:
    lines = errors_of(tmp_path, GOOD + "mqtt: {password: [geheim]}\n")
    assert lines == ["4: mqtt.password: found a value (not shown), expected text"]


def test_valid_keys_are_kept_for_further_checks(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(GOOD + "model: mine\nmqtt: {port: x, host: broker}\n")
    config, problems = ConfigFile(path, Config).validate()
    assert len(problems) == 1
    assert config is not None
    assert (config.model, config.mqtt.host, config.mqtt.port) == ("mine", "broker", 1883)


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates()
keys = st.sampled_from([*Config.model_fields, "source", "fps", "port", "x"]) | st.integers() | st.text(max_size=4)
trees = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4), max_leaves=12
)


@given(tree=trees)
def test_any_yaml_is_reported_in_lines_and_raises_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, tree: object
) -> None:
    for line in errors_of(tmp_path_factory.mktemp("fuzz"), yaml.safe_dump(tree)):
        assert ", expected " in line
        assert line.isprintable()


@given(text=st.text(alphabet="abc:-{}[]&*!?|>'\"%@`#, \n\t\0\x85é") | st.binary(max_size=64))
def test_any_text_is_reported_in_lines_and_raises_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, text: str | bytes
) -> None:
    assert errors_of(tmp_path_factory.mktemp("fuzz"), text)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("mqtt://192.0.2.2:1883", "`192.0.2.2` alone, and `port: 1883`"),
        ("mqtts://broker.example", "`broker.example` alone, and `tls: {enabled: true}`"),
        ("192.0.2.2:1883", "`192.0.2.2` alone, and `port: 1883`"),
        ("wss://broker.example/mqtt", "`broker.example` alone: MQTT over TCP or TLS, not over WebSocket"),
        ("[::1]", "`::1` alone"),
        ("[fe80::1]:1883", "`fe80::1` alone, and `port: 1883`"),
        ("mqtt://me:geheim@broker", "`broker` alone"),
        ("broker/", "`broker` alone"),
        ("bro ker", "a host's name or IP address"),
        ("a" * 64, "a host's name or IP address"),
        ("${BROKER}", "a host's name or IP address"),
        ("a..b", "a host's name or IP address"),
    ],
)
def test_a_host_is_a_name_or_an_address_alone(tmp_path: Path, host: str, expected: str) -> None:
    (line,) = errors_of(tmp_path, GOOD + f"mqtt: {{host: '{host}'}}\n")
    assert line.startswith("4: mqtt.host: found ")
    assert f"expected {expected}" in line
    assert "geheim" not in line


@pytest.mark.parametrize("host", ["::1", "fe80::1%eth0", "192.0.2.2", "broker", "my_broker.example.", "bröker.example"])
def test_hosts(tmp_path: Path, host: str) -> None:
    (tmp_path / "c.yaml").write_text(GOOD + f"mqtt: {{host: '{host}'}}\n")
    assert ConfigFile(tmp_path / "c.yaml", Config).validate()[1] == []


@pytest.mark.parametrize(("name", "near"), [("Küche", "Kuche"), ("Back Porch", "Back-Porch"), ("Ørsted", "rsted")])
def test_a_name_that_is_no_topic_level_gets_one_that_is(tmp_path: Path, name: str, near: str) -> None:
    (line,) = errors_of(tmp_path, f"cameras: {{{name}: {{source: 'synthetic://'}}}}\n")
    assert line.endswith(f"expected 1 to 64 letters (a to z), digits, '-' or '_', for example `{near}`")
