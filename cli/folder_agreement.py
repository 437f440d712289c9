"""How many images of a folder get the label that their folder is named after."""

from collections.abc import Sequence
from pathlib import Path

from edgemeta.model.graph import Model
from edgemeta.model.tasks import Classification
from edgemeta.tasks.results import Result
from edgemeta.toolchain.data.class_folders import class_names, is_class_folder


class FolderAgreement:
    """Counts images that lie in a class folder of the arguments, if all class folders of an argument are labels."""

    def __init__(self, model: Model, arguments: Sequence[str]) -> None:
        self._folders: dict[Path, str] = {}
        self._images = self._right = 0
        if not isinstance(model.task, Classification):
            return
        for folder in map(Path, arguments):
            names = class_names(folder) if is_class_folder(folder) else ()
            if set(names) <= set(model.labels):
                self._folders |= {folder / name: name for name in names}

    def add(self, file: Path, result: Result) -> None:
        """Count an image with its result, the best label first."""
        label = self._folders.get(file.parent)
        if label is not None:
            self._images += 1
            self._right += bool(result.labels) and result.labels[0][0] == label

    @property
    def line(self) -> str | None:
        """The share of images, as a sentence; None if there are no such images."""
        if not self._images:
            return None
        share = 100 * self._right / self._images
        return f"{share:.2f} % of {self._images:,} images get the label of their folder"
