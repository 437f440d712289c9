"""`edgemeta doctor` on this machine: its report is valid, gives nobody away, and says what is in the way."""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from edgemeta.cli.doctor import examine
from edgemeta.cli.doctor.examine import Asked, examined
from edgemeta.cli.doctor.kernels import variants
from edgemeta.cli.doctor.names import own_names
from edgemeta.cli.doctor.report import DoctorReport
from edgemeta.cli.doctor.text import COLUMNS, lines
from edgemeta.daemon.config.broker import MqttConfig
from edgemeta.kernels.cpu.library import supported_isas
from edgemeta.plugins.registry import names
from rig.broker import Mosquitto
from rig.waiting import free_port
from tools.json_schema import files

ARGUMENTS = ("--seconds", "1", "--json", "-")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    if not Mosquitto.installed():
        pytest.skip("mosquitto is not installed (Debian package mosquitto)")
    running = Mosquitto(tmp_path_factory.mktemp("broker"))
    running.start()
    yield running.port
    running.stop()


@pytest.fixture(scope="module")
def report(broker: int) -> DoctorReport:
    """One of this machine, with little time for each part."""
    return examined(Asked(MqttConfig(host="127.0.0.1", port=broker)), 1.0, lambda *_: None)


def as_json(report: DoctorReport) -> str:
    return report.model_dump_json(context={"names": own_names()})


def test_the_report_is_of_its_schema(report: DoctorReport) -> None:
    schema = json.loads(files()["doctor.schema.json"])
    jsonschema.validate(json.loads(as_json(report)), schema, format_checker=jsonschema.FormatChecker())
    assert DoctorReport.model_validate_json(as_json(report)).board.cores == os.cpu_count()


def test_every_part_has_found_something(report: DoctorReport) -> None:
    assert [each.name for each in report.backends] == list(names())
    assert report.kernels[0].networks > 0
    assert report.kernels[0].isa == supported_isas()[-1]
    tested = variants([each.name for each in report.backends if each.available])
    assert [(each.backend, each.isa, each.form) for each in report.kernels] == [
        (each.backend, each.isa, each.form) for each in tested
    ], "each has its share of the time, and is in the report if that was none"
    assert all(not test.differ and test.failure is None for test in report.kernels)
    first, *others = report.speed
    assert first.median_us is not None
    assert {each.runtime.split()[0] for each in others} == {"LiteRT", "ONNX"}
    assert all(each.ratio is not None and 0.01 < each.ratio < 100 for each in others)
    assert report.broker is not None
    assert report.broker.connected
    assert report.health.disk_free_bytes
    assert report.ok == (not report.problems)


def addresses() -> Iterator[str]:
    """IP addresses and MACs of this machine, but for those that every machine has."""
    for folder in Path("/sys/class/net").iterdir():
        yield (folder / "address").read_text().strip()
    yield from re.findall(r"\|-- (\d+\.\d+\.\d+\.\d+)\n.*host LOCAL", Path("/proc/net/fib_trie").read_text())
    if Path("/proc/net/if_inet6").exists():
        for line in Path("/proc/net/if_inet6").read_text().splitlines():
            yield socket.inet_ntop(socket.AF_INET6, bytes.fromhex(line.split()[0]))


def test_nobody_is_given_away(broker: int, tmp_path: Path) -> None:
    """Names that are planted where a report could take them up, and those of this machine."""
    library = tmp_path / "alice-home" / "lib.so"
    environment = {**os.environ, "USER": "alice", "LOGNAME": "alice", "EDGEMETA_CPU_LIBRARY": str(library)}
    config = tmp_path / "bob.yaml"
    config.write_text(
        f"device: carol\ncameras: {{dave: {{source: synthetic}}}}\nmqtt: {{host: eve.invalid, port: {broker}}}\n"
    )
    command = [sys.executable, "-m", "edgemeta.cli.main"]
    program = "from edgemeta.cli.main import main; main()"
    arguments = ["doctor", "--config", str(config), *ARGUMENTS]
    done = subprocess.run(
        [command[0], "-c", program, *arguments], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    parts = {each["part"] for each in found["problems"]}
    assert {"backends", "broker"} <= parts
    secret = {"alice", "alice-home", "bob", "carol", "dave", "eve", "eve.invalid", str(tmp_path), *own_names()}
    secret |= set(addresses()) - {"0.0.0.0", "00:00:00:00:00:00"}
    for word in secret:
        assert not re.search(rf"(?<!\w){re.escape(word)}(?!\w)", done.stdout), word
    assert "<path> is missing" in json.dumps(found["backends"])


def test_no_field_is_text_that_stays_as_it_is() -> None:
    """A field is a number, a choice, a version or a day by its pattern, or a text that is cleaned."""
    schema = json.loads(files()["doctor.schema.json"])
    dirty = DoctorReport.model_json_schema(mode="validation")
    assert schema["$defs"].keys() == dirty["$defs"].keys()
    text = "/home/alice at 10.1.2.3"
    for name, record in dirty["$defs"].items():
        for field, kind in record["properties"].items():
            assert kind.get("type") != "string" or "enum" in kind or "pattern" in kind or cleans(name, field, text), (
                field
            )


def cleans(record: str, field: str, text: str) -> bool:
    from edgemeta.cli.doctor import report as records

    made = getattr(records, record).model_construct(**{field: text})
    return bool(made.model_dump(mode="json", include={field}, context={"names": ()})[field] == "<path> at <address>")


def test_a_terminal_of_80_columns_shows_it(report: DoctorReport) -> None:
    text = list(lines(report))
    assert max(map(len, text)) <= COLUMNS
    assert any(line.startswith("  cpu ") for line in text)
    assert text[-1].startswith(("Nothing is in the way", "    "))


@pytest.mark.timeout(60)
def test_a_broker_that_is_not_there_is_in_the_way() -> None:
    found = examine._answer(Asked(MqttConfig(host="127.0.0.1", port=free_port())))
    assert found is not None
    assert not found.connected
    assert found.reason is not None
    assert found.reason.endswith("cannot be reached: Connection refused")


def test_wrong_words_are_one_sentence(edgemeta: Callable[..., Any], one_sentence: Callable[..., None]) -> None:
    one_sentence(edgemeta("doctor", "--broker", "host:port:"), "--broker host:port:: expected HOST or HOST:PORT")
    assert edgemeta("doctor", "--broker", "a", "--config", "b").returncode == 2
