"""How benchmarks keep what they measured: results/NAME.json and .md, with the command, the date and the machine."""

import json
import os
import platform
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from edgemeta.model.atomic_write import write_atomically

RESULTS = Path(__file__).parent / "results"
PLOTS = RESULTS.parent.parent / "docs" / "images"
PACKAGES = (
    "numpy",
    "opencv-python-headless",
    "torch",
    "ai-edge-litert",
    "onnxruntime",
    "openvino",
    "ncnn",
    "executorch",
    "paho-mqtt",
    "ultralytics",
    "pycuda",
)


def machine() -> dict[str, object]:
    """Processor, operating system and the versions of the packages that a figure may depend on."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {name: found for name in PACKAGES if (found := _version(name)) is not None},
    }


def as_run(program: str) -> str:
    """The command by which a program of this folder was started, without a machine's folders."""
    arguments = [Path(argument).name if "/" in argument else argument for argument in sys.argv[1:]]
    return shlex.join(["python", f"benchmarks/{program}.py", *arguments])


def write_json(name: str, command: str, values: Mapping[str, object], folder: Path = RESULTS) -> None:
    """Write NAME.json in `folder`; a run that is interrupted leaves the earlier file whole."""
    record = {"command": command, "date": today(), "machine": machine(), **values}
    write_atomically(folder / f"{name}.json", (json.dumps(record, indent=2) + "\n").encode())


def write_markdown(name: str, command: str, text: str, folder: Path = RESULTS) -> None:
    """Write NAME.md in `folder`: the text below a line that says how and where it was measured."""
    here = machine()
    packages = here["packages"]
    assert isinstance(packages, dict)
    versions = ", ".join(f"{package} {found}" for package, found in packages.items())
    head = f"`{command}`, {today()}, {here['processor']}, {here['cores']} cores, Python {here['python']}, {versions}."
    write_atomically(folder / f"{name}.md", f"{head}\n\n{text}\n".encode())


@dataclass(frozen=True)
class GrowingResult:
    """Result files that grow run by run, also on different days and machines: NAME.json with entries `runs`, NAME.md.

    command: what makes all runs; what another command wrote does not count. same: further entries that all runs have in
    common, such as the digest of a model file. keys: the entries that tell runs apart. place: sorts the runs.
    """

    name: str
    command: str
    folder: Path
    same: Mapping[str, object]
    keys: tuple[str, ...]
    place: Callable[[Mapping[str, Any]], Any]

    def runs(self) -> list[dict[str, Any]]:
        """The runs so far, in order."""
        path = self.folder / f"{self.name}.json"
        written = json.loads(path.read_text("utf-8")) if path.exists() else {}
        if written.get("command") != self.command:
            return []
        return [run for run in written["runs"] if all(run[key] == value for key, value in self.same.items())]

    def add(
        self, run: Mapping[str, Any], values: Mapping[str, object], text: Callable[[list[dict[str, Any]]], str]
    ) -> None:
        """Write both files with one more run, in place of an earlier one with the same keys.

        values: entries of NAME.json beside the runs. text: of NAME.md, for all runs.
        """
        added = {**run, **self.same, "date": today(), "processor": processor()}
        others = [each for each in self.runs() if any(each[key] != run[key] for key in self.keys)]
        runs = sorted([*others, added], key=self.place)
        write_json(self.name, self.command, {**values, "runs": runs}, self.folder)
        write_markdown(self.name, self.command, text(runs), self.folder)


def part_of(images: int | None) -> str:
    """What the name of a result file, or of a folder of runs, adds where only so many images were used."""
    return "" if images is None else f"-{images}-images"


def today() -> str:
    """The date in UTC, as 2026-11-24."""
    return datetime.now(timezone.utc).date().isoformat()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def processor() -> str:
    """The model name with family and model, as clouds hide the name: enough to tell Zen 4 from Zen 5."""
    fields = {}
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    name = fields.get("model name", platform.processor() or platform.machine())
    family = f" (family {fields['cpu family']}, model {fields['model']})" if "cpu family" in fields else ""
    return f"{name}{family}"
