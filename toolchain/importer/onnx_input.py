"""The image that an ONNX network takes: its size, the order of its axes, and whether an axis of images is there."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgemeta.toolchain.errors import ImportedFileError
from edgemeta.toolchain.importer.network import ImageShape, Order
from edgemeta.toolchain.importer.other_forms import onnx_constants


@dataclass(frozen=True)
class ImageInput:
    """shape: N, C, H, W, whatever the file's order of axes is."""

    name: str
    shape: ImageShape
    order: Order

    @property
    def sides(self) -> tuple[int, ...]:
        """In the file's order."""
        images, channels, height, width = self.shape
        return self.shape if self.order == "chw" else (images, height, width, channels)


def image_input(
    proto: Any, path: Path, size: tuple[int, int] | None, usual: tuple[int, int] | None = None
) -> ImageInput:
    """The only input; without an axis of images the graph gets one.

    size: H, W where the file leaves them open; usual: H, W if `size` is not given. Raises ImportedFileError.
    """
    constants = {each.name for each in proto.graph.initializer}
    inputs = [each for each in proto.graph.input if each.name not in constants]
    if len(inputs) != 1:
        raise ImportedFileError(f"{path}: the network has {len(inputs)} inputs, expected one image")
    image = inputs[0]
    dims = [each.dim_value for each in image.type.tensor_type.shape.dim]
    if len(dims) == 3 and _add_images(proto, image):
        dims.insert(0, 1)
    if len(dims) != 4:
        raise ImportedFileError(
            f"{path}: takes no image: the input has {len(dims)} dimensions, expected 4: N, C, H, W or N, H, W, C"
        )
    order: Order = "hwc" if not 1 <= dims[1] <= 4 and 1 <= dims[3] <= 4 else "chw"
    images, channels, *found = dims if order == "chw" else (dims[0], dims[3], dims[1], dims[2])
    if size is None and min(found) < 1:
        size = usual
    height, width = size or (found[0], found[1])
    if not 1 <= channels <= 4:
        raise ImportedFileError(
            f"{path}: the input has {channels} channels, expected 1 .. 4 in the order N, C, H, W or N, H, W, C"
        )
    if min(height, width) < 1:
        raise ImportedFileError(f"{path}: the input's height and width are left open: give --size HxW")
    if size is not None and any(fixed not in (0, given) for fixed, given in zip(found, size, strict=True)):
        raise ImportedFileError(f"{path}: the input is {found[0]}x{found[1]}, found --size {size[0]}x{size[1]}")
    if images not in (0, 1):
        raise ImportedFileError(f"{path}: the input is a batch of {images} images, expected 1 or one left open")
    return ImageInput(image.name, (1, channels, height, width), order)


def _add_images(proto: Any, image: Any) -> bool:
    """Give the input the axis of images that all of its readers add in front."""
    import onnx

    readers = [node for node in proto.graph.node if image.name in node.input]
    constants = onnx_constants(proto, largest=1)  # the number of the axis
    for node in readers:
        given = [list(each.ints) for each in node.attribute if each.name == "axes"]
        given += [constants[name].ravel().tolist() for name in node.input[1:] if name in constants]
        if node.op_type != "Unsqueeze" or given != [[0]]:
            return False
    for node in readers:
        node.op_type = "Identity"
        del node.input[1:], node.attribute[:]
    image.type.tensor_type.shape.dim.insert(0, onnx.TensorShapeProto.Dimension(dim_value=1))
    return bool(readers)
