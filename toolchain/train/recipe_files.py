"""Finds training recipes by path or shipped name."""

from importlib import resources
from pathlib import Path

from edgemeta.toolchain.errors import RecipeError


def shipped_recipes() -> tuple[str, ...]:
    """Names of the shipped recipes, sorted."""
    folder = resources.files(__package__) / "recipes"
    return tuple(sorted(f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml")))


def find_recipe(name_or_path: str) -> Path:
    """Path of a shipped recipe or of a file. Raises RecipeError if there is neither."""
    if name_or_path in shipped_recipes():
        with resources.as_file(resources.files(__package__) / "recipes" / f"{name_or_path}.yaml") as path:
            return path
    path = Path(name_or_path)
    if not path.is_file():
        raise RecipeError(
            f"{name_or_path}: no such recipe, expected a file or a shipped name ({', '.join(shipped_recipes())})"
        )
    return path
