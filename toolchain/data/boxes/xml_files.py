"""Reads boxes from XML: a file for each picture as Pascal VOC has them, or one for all as CVAT exports them.

VOC counts pixels from 1 and names the last one of a box, so xmin .. xmax is xmin - 1 to xmax here. Of CVAT's forms it
is "CVAT for images": boxes, and polygons, whose boxes are taken.
"""

from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, XMLParser

from edgemeta.toolchain.data.boxes.found import Box, FoundPictures, boxed_picture, number, read_text
from edgemeta.toolchain.data.boxes.pictures import BoxedPictures
from edgemeta.toolchain.errors import DataError


def load_voc(files: list[Path], root: Path) -> BoxedPictures:
    """The pictures of these annotation files, in a folder or its sub-folders; labels: those that occur, sorted.

    Raises DataError.
    """
    found = FoundPictures(root)
    every = []
    for path in files:
        top = parsed(path)
        if top.tag != "annotation":
            raise DataError(f"{path}: is <{top.tag}>, expected <annotation> as Pascal VOC has it")
        name = top.findtext("filename") or path.stem
        every.append((found.find(_with_suffix(name, path, found), path), list(_voc_boxes(top, path)), path))
    labels = tuple(sorted({label for _, boxes, _ in every for label, _, _ in boxes}))
    if not labels:
        raise DataError(f"{root}: no annotation has an object, expected boxes")
    pictures = tuple(boxed_picture(path, boxes, labels, source) for path, boxes, source in every)
    return BoxedPictures(labels, pictures, all_labels=False)


def load_cvat(path: Path, root: Path) -> BoxedPictures:
    """The pictures of an export "CVAT for images", in a folder or its sub-folders. Raises DataError."""
    top = parsed(path)
    if top.tag != "annotations" or top.find("track") is not None:
        form = "CVAT for video" if top.tag == "annotations" else f"<{top.tag}>"
        raise DataError(f'{path}: is {form}, expected an export "CVAT for images"')
    images = top.findall("image")
    every = [(image.get("name") or "", list(_cvat_boxes(image, path))) for image in images]
    named = [str(each.text) for each in top.iterfind("meta//labels/label/name")]
    labels = tuple(dict.fromkeys(named or sorted({label for _, boxes in every for label, _, _ in boxes})))
    if not labels:
        raise DataError(f"{path}: has no label, expected boxes of some")
    found = FoundPictures(root)
    return BoxedPictures(
        labels, tuple(boxed_picture(found.find(name, path), boxes, labels, path) for name, boxes in every)
    )


def parsed(path: Path) -> Element:
    """The top element of a file. Raises DataError."""
    text = read_text(path)
    if "<!ENTITY" in text:
        raise DataError(f"{path}: defines entities, expected plain XML")
    parser = XMLParser()  # noqa: S314 - entities are refused
    try:
        parser.feed(text)
        top: Element = parser.close()
        return top
    except ParseError as error:
        raise DataError(f"{path}: is no XML ({error})") from error


def _with_suffix(name: str, path: Path, found: FoundPictures) -> str:
    """The name of a picture; labelling programs write the annotation's own name, or one without its suffix."""
    own = [each.name for each in found.paths if each.stem == path.stem and each.parent in (path.parent, found.root)]
    return own[0] if own and Path(name).stem != path.stem else name if Path(name).suffix else next(iter(own), name)


def _voc_boxes(top: Element, path: Path) -> Iterator[Box]:
    for each in top.iterfind("object"):
        label, box = each.findtext("name"), each.find("bndbox")
        if not label or box is None:
            raise DataError(f"{path}: an object has no name or no bndbox, expected both")
        x0, y0, x1, y1 = (number(box.findtext(side), side, path) for side in ("xmin", "ymin", "xmax", "ymax"))
        yield label, (max(x0 - 1, 0.0), max(y0 - 1, 0.0), x1, y1), each.findtext("difficult") == "1"


def _cvat_boxes(image: Element, path: Path) -> Iterator[Box]:
    for each in image:
        label = each.get("label") or ""
        if each.tag == "box":
            x0, y0, x1, y1 = (number(each.get(side), side, path) for side in ("xtl", "ytl", "xbr", "ybr"))
            yield label, (x0, y0, x1, y1), False
        elif each.tag == "polygon":
            points = [pair.split(",") for pair in (each.get("points") or "").split(";")]
            numbers = [[number(side, "points", path) for side in pair] for pair in points]
            if any(len(pair) != 2 for pair in numbers):
                raise DataError(f"{path}: points are {str(each.get('points'))[:40]!r}, expected x,y;x,y;..")
            columns, rows = zip(*numbers, strict=True)
            yield label, (min(columns), min(rows), max(columns), max(rows)), False
