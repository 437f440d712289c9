"""Imports point down: between the top folders, between the rooms within a folder, and never in a circle."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ALLOWED = {
    "model": set(),
    "kernels": {"model"},
    "plugins": {"kernels", "model"},
    "tasks": {"model"},
    "daemon": {"kernels", "model", "plugins", "tasks"},
    "toolchain": {"kernels", "model", "plugins", "tasks"},
    "cli": {"daemon", "kernels", "model", "plugins", "tasks", "toolchain"},
}

DEVELOPMENT = {"benchmarks", "reliability", "rig", "tests", "tools"}
"""Packages that only a checkout has: a wheel holds none of them, so the product imports none."""

PROOF = "edgemeta_proof"
ASKING = {"cli/kernels.py", "toolchain/search/device_costs.py"}
"""Modules that ask for the distribution in proof/, which may be absent, when a command needs it."""

MODULES = "the folder's own modules"

ROOMS: dict[str, list[set[str]]] = {
    "daemon": [
        {"service"},
        {"web"},
        {"pictures"},
        {"collect", "inference"},
        {"metrics"},
        {"capture", "mqtt"},
        {"messages"},
        {"config", "runtime"},
    ],
    "daemon/capture": [{"sources"}, {MODULES}],
    "daemon/inference": [{"swap"}, {MODULES}, {"tracking"}, {"readers"}],
    "daemon/mqtt": [{"homeassistant"}, {MODULES}, {"outbox"}],
    "kernels": [{"cuda", "fpga", "simulate"}, {"cpu"}, {"lowering"}],
    "kernels/cuda": [
        {"lowering", "one_launch"},
        {"popc"},
        {"winograd"},
        {"direct", "elementwise", "grouped", "pool", "pool_dense", "preprocess", "rearrange", "resize", "tensor"},
        {"compile"},
        {"plan"},
    ],
    "kernels/fpga": [{"report"}, {"simulate", "synthesize"}, {"generate"}],
    "toolchain": [
        {"incremental", "search"},
        {"exporter", "importer", "reject", "simulate", "teach"},
        {"train", "quantize"},
        {"evaluate"},
        {MODULES},
        {"data", "decompose", "float_model", "number_formats"},
        {"errors"},
    ],
}
"""The rooms of a folder, from the top layer down. A room imports from itself and from lower layers only."""

MOST_MODULES = {"daemon": 2, "kernels/cuda": 2}
"""Modules directly in a folder of rooms, `__init__` included."""


@cache
def imported_modules(source: Path) -> tuple[str, ...]:
    return tuple(_imported(source))


def _imported(source: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(source.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{source}: relative import"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def module_of(source: Path, repository: Path) -> str:
    parts = source.relative_to(repository).with_suffix("").parts
    return ".".join(("edgemeta", *parts)).removesuffix(".__init__")


@pytest.mark.parametrize("folder", ALLOWED)
def test_a_folder_imports_only_what_lies_below_it(repository: Path, folder: str) -> None:
    sources = list((repository / folder).rglob("*.py"))
    assert sources
    for source in sources:
        for module in imported_modules(source):
            parts = module.split(".")
            assert parts[0] not in {*ALLOWED, *DEVELOPMENT}, f"{source.relative_to(repository)} imports {module}"
            assert parts[0] != PROOF or str(source.relative_to(repository)) in ASKING, f"{source} imports {module}"
            if parts[0] == "edgemeta" and len(parts) > 1 and parts[1] != "__version__":
                assert parts[1] in ALLOWED[folder] | {folder}, f"{source.relative_to(repository)} imports {module}"


@pytest.mark.parametrize("folder", ROOMS)
def test_a_room_imports_only_from_lower_rooms(repository: Path, folder: str) -> None:
    layers = ROOMS[folder]
    layer_of = {room: number for number, rooms in enumerate(layers) for room in rooms}
    prefix = ["edgemeta", *folder.split("/")]

    def room_of(steps: list[str]) -> str | None:
        """The room that a dotted module is in; None outside of the folder, and for the folder itself."""
        if steps[: len(prefix)] != prefix or len(steps) == len(prefix):
            return None
        name = steps[len(prefix)]
        return name if name in layer_of else MODULES

    for source in (repository / folder).rglob("*.py"):
        own = room_of(module_of(source, repository).split("."))
        if own is None:
            continue
        assert own in layer_of, f"{source.relative_to(repository)} is in no room of {folder}"
        for module in imported_modules(source):
            other = room_of(module.split("."))
            if other is None or other == own or not is_module(repository, module):
                continue
            assert layer_of[other] > layer_of[own], f"{source.relative_to(repository)} imports {module}"


def is_module(repository: Path, name: str) -> bool:
    """Whether a dotted name is a module or package of ours, rather than a name in one."""
    path = repository.joinpath(*name.split(".")[1:])
    return path.with_suffix(".py").is_file() or path.is_dir()


def test_no_imports_run_in_a_circle(repository: Path) -> None:
    graph = {}
    for folder in ALLOWED:
        for source in (repository / folder).rglob("*.py"):
            module = module_of(source, repository)
            graph[module] = {each for each in imported_modules(source) if is_module(repository, each)} - {module}
    assert len(graph) > 200
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


@pytest.mark.parametrize("folder", MOST_MODULES)
def test_few_modules_lie_outside_of_rooms(repository: Path, folder: str) -> None:
    assert len(list((repository / folder).glob("*.py"))) <= MOST_MODULES[folder]


@pytest.mark.parametrize("folder", ["model", "kernels", "plugins", "daemon"])
def test_the_service_imports_no_toolchain_library(repository: Path, folder: str) -> None:
    modules = [
        "edgemeta." + ".".join(source.relative_to(repository).with_suffix("").parts)
        for source in (repository / folder).rglob("*.py")
        if "demo" not in source.parts
    ]
    loaded = run_python(
        "import importlib, sys\n"
        f"for name in {modules!r}: importlib.import_module(name.removesuffix('.__init__'))\n"
        "unwanted = 'torch', 'optuna', 'pycuda', 'amqtt', 'rich', 'PIL', 'matplotlib', 'hypothesis', 'edgemeta_proof'\n"
        "print([name for name in unwanted if name in sys.modules])"
    )
    assert loaded == "[]"


def run_python(program: str) -> str:
    """Run a program away from the checkout, where only what is installed can be imported."""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd="/", timeout=120)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()
