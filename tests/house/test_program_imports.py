"""Programs that no test runs name only what the modules of their folder have."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("benchmarks", "reliability", "tools", "rig")


def defined(path: Path) -> set[str]:
    """Names at the top of a module."""
    found = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        for each in ast.walk(node) if isinstance(node, ast.If | ast.Try) else [node]:
            match each:
                case ast.FunctionDef() | ast.ClassDef() | ast.AsyncFunctionDef():
                    found.add(each.name)
                case ast.Import() | ast.ImportFrom():
                    found |= {alias.asname or alias.name for alias in each.names}
                case ast.Assign() | ast.AnnAssign():
                    targets = each.targets if isinstance(each, ast.Assign) else [each.target]
                    found |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return found


def test_programs_import_what_is_there() -> None:
    missing = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if not isinstance(node, ast.ImportFrom) or (node.module or "").split(".")[0] not in FOLDERS:
                    continue
                module = ROOT / str(node.module).replace(".", "/")
                if module.is_dir():
                    file = module / "__init__.py"
                    names = (defined(file) if file.is_file() else set()) | {each.stem for each in module.iterdir()}
                else:
                    names = defined(module.with_suffix(".py"))
                missing += [f"{path.name}: {node.module}.{a.name}" for a in node.names if a.name not in names]
    assert not missing
