"""Public functions that take or give arrays say of which shape these are."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("model", "tasks", "kernels", "plugins", "daemon", "toolchain", "cli")
ARRAYS = {"NDArray", "ndarray", "Tensor"}
STATED = re.compile(r"\[|\b(shape|scalar)|^As ")
"""A shape in brackets, or described, or the name of the function whose docstring holds here too."""


def words(node: ast.AST) -> Iterator[str]:
    """Every name within an annotation, in quotes or not."""
    for each in ast.walk(node):
        match each:
            case ast.Name(name) | ast.Attribute(attr=name):
                yield name
            case ast.Constant(str(text)):
                yield from re.findall(r"\w+", text)


def aliases(tree: ast.Module, known: set[str]) -> Iterator[str]:
    """Names of a module's types of arrays, those without a documented shape."""
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        match after:
            case ast.Expr(ast.Constant(str(text))) if "[" in text:
                continue
        match node:
            case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), ast.Name("TypeAlias"), value):
                if isinstance(value, ast.Subscript | ast.BinOp | ast.Name) and known & set(words(value)):
                    yield name


def arrays_of(tree: ast.Module, found: dict[str, set[str]]) -> set[str]:
    """The names in a module that are arrays; found: aliases by module."""
    imported = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name in found.get(node.module or "", set())
    }
    return ARRAYS | imported


def public_functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """Functions of the module and methods of its public classes."""
    for node in tree.body:
        inside = node.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_") else [node]
        yield from (each for each in inside if isinstance(each, ast.FunctionDef) and not each.name.startswith("_"))


def annotations(function: ast.FunctionDef) -> Iterator[ast.expr]:
    for each in ast.walk(function.args):
        if isinstance(each, ast.arg) and each.annotation is not None:
            yield each.annotation
    if function.returns is not None:
        yield function.returns


def without_shape(repository: Path) -> Iterator[str]:
    sources = [source for folder in FOLDERS for source in sorted((repository / folder).rglob("*.py"))]
    trees = {source: ast.parse(source.read_text("utf-8")) for source in sources}
    names = {
        source: ".".join(("edgemeta", *source.relative_to(repository).with_suffix("").parts)) for source in sources
    }
    found: dict[str, set[str]] = {}
    for _ in range(4):  # an alias may be made of another module's
        for source, tree in trees.items():
            known = arrays_of(tree, found) | found.get(names[source], set())
            found[names[source]] = set(aliases(tree, known))
    for source, tree in trees.items():
        known = arrays_of(tree, found) | found[names[source]]
        for function in public_functions(tree):
            takes_arrays = any(known & set(words(each)) for each in annotations(function))
            if takes_arrays and not STATED.search(ast.get_docstring(function) or ""):
                yield f"{source.relative_to(repository)}:{function.lineno}: {function.name}"


def test_functions_of_arrays_state_their_shapes(repository: Path) -> None:
    assert list(without_shape(repository)) == []
