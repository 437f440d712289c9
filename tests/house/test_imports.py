"""Imports point down: model <- kernels <- plugins <- daemon, toolchain sees only model, cli sees all."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ALLOWED = {
    "model": set(),
    "kernels": {"model"},
    "plugins": {"kernels", "model"},
    "daemon": {"kernels", "model", "plugins"},
    "toolchain": {"model"},
    "cli": {"daemon", "kernels", "model", "plugins", "toolchain"},
}


def imported_modules(source: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(source.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{source}: relative import"
            yield node.module or ""


@pytest.mark.parametrize("folder", ALLOWED)
def test_a_folder_imports_only_what_lies_below_it(repository: Path, folder: str) -> None:
    sources = list((repository / folder).rglob("*.py"))
    assert sources
    for source in sources:
        for module in imported_modules(source):
            parts = module.split(".")
            if parts[0] == "edgemeta" and len(parts) > 1:
                assert parts[1] in ALLOWED[folder] | {folder}, f"{source.relative_to(repository)} imports {module}"


@pytest.mark.parametrize("folder", ["model", "kernels", "plugins", "daemon"])
def test_the_service_loads_no_workshop_library(repository: Path, folder: str) -> None:
    modules = [
        "edgemeta." + ".".join(source.relative_to(repository).with_suffix("").parts)
        for source in (repository / folder).rglob("*.py")
        if "demo" not in source.parts
    ]
    loaded = run_python(
        "import importlib, sys\n"
        f"for name in {modules!r}: importlib.import_module(name.removesuffix('.__init__'))\n"
        "print([name for name in ('torch', 'pycuda', 'amqtt', 'rich', 'PIL', 'hypothesis') if name in sys.modules])"
    )
    assert loaded == "[]"


def test_no_global_name_is_taken() -> None:
    names = ["cli", "daemon", "kernels", "model", "plugins", "toolchain"]
    found = run_python(f"import importlib.util as u; print([name for name in {names} if u.find_spec(name)])")
    assert found == "[]"


def run_python(program: str) -> str:
    """Run a program away from the checkout, where only what is installed can be imported."""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd="/", timeout=120)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()
