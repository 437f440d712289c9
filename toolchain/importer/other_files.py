"""Files that people take for a network: what they are, and what to do."""

from pathlib import Path

from edgemeta.toolchain.errors import ImportedFileError

_BEGINNINGS = (
    (
        (b"version https://git-lfs",),
        "is a pointer of Git LFS in place of the network: get the file itself with git lfs pull",
    ),
    (
        (b"<!DOCTYPE", b"<!doctype", b"<html"),
        "is a page of the web: download the file itself",
    ),
    ((b"\x89HDF",), "holds a network of Keras: convert it to TFLite or ONNX first"),
    (
        (b"<?xml", b"<net "),
        "is a text, as OpenVINO has: import the ONNX or TFLite file it was made of",
    ),
    ((b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"), "holds objects of Python, as PyTorch saves them: {torch}"),
)
_TORCH = "export the network to ONNX first (torch.onnx.export, for Ultralytics yolo export format=onnx)"
_ZIP = b"PK\x03\x04"


def refuse_other_files(path: Path) -> None:
    """Raise ImportedFileError for a file that is known and is no network; one that cannot be read, too."""
    try:
        with path.open("rb") as file:
            head = file.read(512)
    except OSError as error:
        raise ImportedFileError(f"{path}: cannot be read: {error.strerror or error}") from None
    for beginnings, what in _BEGINNINGS:
        if head.lstrip().startswith(beginnings):
            raise ImportedFileError(f"{path}: {what.format(torch=_TORCH)}")
    if head.startswith(_ZIP):
        inside = b".pkl" in head or path.suffix in (".pt", ".pth", ".ckpt")
        what = f"holds weights of PyTorch: {_TORCH}" if inside else "is an archive: import the network in it"
        raise ImportedFileError(f"{path}: {what}")
