"""Imports between the rooms of kernels/ point down, in one order; inside a room there are no circles."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ORDER = (
    ("lowering",),
    ("cpu",),
    ("cuda/plan",),
    ("cuda/compile",),
    ("cuda/machine_code",),
    ("cuda/direct", "cuda/elementwise", "cuda/pool_dense", "cuda/tensor"),
    ("cuda/winograd",),
    ("cuda/baselines",),
    ("cuda/lowering",),
    ("cuda/report",),
)
"""Lowest first; rooms of one row do not know each other."""

RANK = {room: rank for rank, rooms in enumerate(ORDER) for room in rooms}


def imported(source: Path) -> Iterator[str]:
    """Modules of kernels that a source file imports anywhere, as paths without a suffix."""
    for node in ast.walk(ast.parse(source.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        yield from (name.removeprefix("edgemeta.").replace(".", "/") for name in names if "edgemeta.kernels." in name)


def room_of(module: str) -> str | None:
    """The room of a module such as "kernels/cuda/plan/launch_plan"; None for what is in no room."""
    inside = module.removeprefix("kernels/")
    return next((room for room in RANK if inside == room or inside.startswith(f"{room}/")), None)


def modules(repository: Path) -> dict[str, set[str]]:
    """Every module of kernels and the modules of kernels that it imports."""
    sources = {
        str(path.relative_to(repository).with_suffix("")): path for path in (repository / "kernels").rglob("*.py")
    }
    return {name: {other for other in imported(path) if other in sources} for name, path in sources.items()}


def test_every_module_is_in_a_room(repository: Path) -> None:
    strays = [name for name in modules(repository) if room_of(name) is None and not name.endswith("__init__")]
    assert strays == []


def test_imports_point_down(repository: Path) -> None:
    for name, others in modules(repository).items():
        for other in others:
            here, there = room_of(name), room_of(other)
            if here and there and here != there:
                assert RANK[there] < RANK[here], f"{name} imports {other}"


def test_no_module_imports_itself_by_way_of_others(repository: Path) -> None:
    graph = modules(repository)
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            pytest.fail(" imports ".join((*path[path.index(name) :], name)))
        if name not in done:
            for other in graph[name]:
                visit(other, (*path, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def test_cuda_has_few_modules_outside_its_rooms(repository: Path) -> None:
    assert len(list((repository / "kernels" / "cuda").glob("*.py"))) <= 4
