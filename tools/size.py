"""Lines of the product against the main branch, files that switch on the types of operators, words of documents.

    python -m tools.size [--json]

Counted are the lines of all tracked text files of FOLDERS in the working tree; --json lists the switching files. The
exit status is 1 above PRODUCT_LINES, SWITCHING_FILES or WORDS: a branch that needs more says why, and raises the
constant.
"""

import argparse
import ast
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("model", "tasks", "kernels", "plugins", "daemon", "toolchain", "cli")
PRODUCT_LINES = 106_080
SWITCHING_FILES = 32
WORDS = 45_000
"""Of README.md and docs/ as they are committed, decisions and notebook left out."""
OPERATORS = {
    *("Add", "AveragePool", "BatchNorm", "ChannelShuffle", "Clamp", "Concat", "Conv", "Dense", "Function"),
    *("GlobalAverage", "Lookup", "MaxPool", "Pad", "Pool", "Product", "Relu", "Rescale", "ResizeBilinear", "Slice"),
    "Upsample",
}
"""Names of the classes of operators, of integer and of float networks."""


def _git(root: Path, *arguments: str) -> bytes | None:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None


def lines_of(content: bytes) -> int:
    """Lines of a text; 0 of what is none."""
    return 0 if b"\0" in content else content.count(b"\n")


def tracked(root: Path) -> list[str]:
    """The tracked files of FOLDERS that exist. Raises SystemExit where git does not list them."""
    listed = _git(root, "ls-files", "-z", "--", *FOLDERS)
    if listed is None:
        raise SystemExit(f"{root}: git lists no files, expected a checkout")
    return [name for name in listed.decode().split("\0") if name and (root / name).is_file()]


def sizes(root: Path) -> dict[str, int]:
    """Lines of each folder of FOLDERS in the working tree."""
    found = dict.fromkeys(FOLDERS, 0)
    for name in tracked(root):
        found[name.split("/")[0]] += lines_of((root / name).read_bytes())
    return found


def sizes_of_main(root: Path) -> dict[str, int] | None:
    """The same of the main branch; None where there is none."""
    for branch in ("origin/main", "main"):
        listed = _git(root, "diff", "--numstat", "--no-renames", "-z", branch, "--", *FOLDERS)
        if listed is not None:
            break
    else:
        return None
    found = sizes(root)
    for row in filter(None, listed.decode().split("\0")):
        added, removed, name = row.split("\t")
        if added != "-":  # of a binary file git counts none
            found[name.split("/")[0]] += int(removed) - int(added)
    return found


def switches(text: str) -> bool:
    """Whether a Python module branches on types of operators: by isinstance, `match`, `type(x) is` or a table."""
    return any(_is_switch(node) for node in ast.walk(ast.parse(text)))


def _is_switch(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name("isinstance" | "issubclass"), args=[_, kinds]):
            return any(_is_operator(each) for each in ast.walk(kinds))
        case ast.MatchClass(cls=kind):
            return _is_operator(kind)
        case ast.Compare(left=ast.Call(func=ast.Name("type")), comparators=others):
            return any(_is_operator(each) for other in others for each in ast.walk(other))
        case ast.Dict(keys=keys):
            return any(key is not None and _is_operator(key) for key in keys)
    return False


def _is_operator(node: ast.AST) -> bool:
    match node:
        case ast.Name(name) | ast.Attribute(attr=name):
            return name in OPERATORS
    return False


def switching(root: Path) -> Iterator[str]:
    """The modules of the product that branch on types of operators."""
    for name in tracked(root):
        if name.endswith(".py") and switches((root / name).read_text("utf-8")):
            yield name


def words(root: Path) -> int:
    """Words of the documents that WORDS bounds."""
    pages = [root / "README.md", *(root / "docs").rglob("*.md")]
    left_out = {root / "docs" / "decisions", root / "docs" / "notebook"}
    return sum(len(page.read_text("utf-8").split()) for page in pages if page.parent not in left_out)


def report(own: Mapping[str, int], main: Mapping[str, int] | None, files: list[str]) -> Iterator[str]:
    """The lines that are printed."""
    for folder in (*FOLDERS, "product"):
        count = own[folder] if folder in own else sum(own.values())
        before = None if main is None else (main[folder] if folder in main else sum(main.values()))
        yield f"{folder:<10} {count:>7,}" + ("" if before is None else f" {count - before:>+7,}")
    yield f"{len(files)} files switch on types of operators (at most {SWITCHING_FILES}; --json lists them)"


def main() -> None:
    """Print the sizes; exit with 1 above a ceiling."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", dest="as_json")
    as_json = parser.parse_args().as_json
    own, before, files = sizes(ROOT), sizes_of_main(ROOT), list(switching(ROOT))
    if as_json:
        print(json.dumps({"lines": own, "main": before, "product": sum(own.values()), "switching": files}, indent=2))
    else:
        print("\n".join(report(own, before, files)))
        print(f"{words(ROOT):,} words of README.md and docs/ without decisions and notebook (at most {WORDS:,})")
    if (said := words(ROOT)) > WORDS:
        sys.exit(f"README.md and docs/ have {said:,} words, expected at most {WORDS:,} (tools/size.py)")
    if sum(own.values()) > PRODUCT_LINES:
        sys.exit(f"the product has {sum(own.values()):,} lines, expected at most {PRODUCT_LINES:,} (tools/size.py)")
    if len(files) > SWITCHING_FILES:
        sys.exit(f"{len(files)} files switch on types of operators, expected at most {SWITCHING_FILES} (tools/size.py)")


if __name__ == "__main__":
    main()
