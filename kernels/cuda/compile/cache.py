"""Cache of compiled kernels: one file per variant, architecture and compiler version.

The file name contains a digest of everything that determines the code: the text of the source and its includes, the
definitions and the options. The content is the cubin followed by its SHA-256, so that a damaged file is detected. Files
are written under a temporary name and renamed, so several processes may share a folder.
"""

import hashlib
import logging
import os
import re
import tempfile
from pathlib import Path

from edgemeta.kernels.cuda.compile.compiler import SOURCES, CubinMaker, options
from edgemeta.kernels.cuda.compile.tool import CompilerError
from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.launch_plan import Source

_DIGEST_BYTES = 32
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)

log = logging.getLogger(__name__)


def default_folder() -> Path:
    """$EDGEMETA_CACHE, else $XDG_CACHE_HOME/edgemeta, else ~/.cache/edgemeta."""
    if os.environ.get("EDGEMETA_CACHE"):
        return Path(os.environ["EDGEMETA_CACHE"])
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "edgemeta"


def holds(folder: Path, architecture: Architecture) -> bool:
    """Whether a cache folder contains any cubin for an architecture."""
    return any((folder / architecture.name).glob("*.cubin"))


class Cubins:
    """The cubins in a folder; a compiler, if there is one, adds missing ones."""

    def __init__(self, folder: Path | None, compiler: CubinMaker | None) -> None:
        """folder: None for the default. compiler: None to use only existing cubins, of any compiler version."""
        self.folder = folder if folder is not None else default_folder()
        self.compiler = compiler
        self._keeps = True

    def get(self, source: Source, architecture: Architecture) -> bytes:
        """The cubin of a variant, compiled and stored if it is missing. Raises CompilerError.

        A folder that cannot be written is logged once and does not prevent the use of the cubin.
        """
        if self.compiler is None:
            return self._built_ahead(source, architecture)
        path = self._path(source, architecture, self.compiler)
        kept = _read(path)
        if kept is not None:
            return kept
        cubin = self.compiler.compile(source, architecture)
        if self._keeps:
            try:
                _write(path, cubin)
            except OSError as error:
                self._keeps = False
                log.warning("%s", self._refused(error))
        return cubin

    def has(self, source: Source, architecture: Architecture) -> bool:
        """Whether the cubin of a variant is there, so that `get` does not compile."""
        if self.compiler is not None:
            return _read(self._path(source, architecture, self.compiler)) is not None
        return any((self.folder / architecture.name).glob(f"{_stem(source, architecture)}-*.cubin"))

    def keep(self, source: Source, architecture: Architecture) -> None:
        """Compile and store a variant if it is missing. Raises CompilerError, also if the folder cannot be written."""
        assert self.compiler is not None, "there is no compiler"
        if not self.has(source, architecture):
            self.put(source, architecture, self.compiler.compile(source, architecture))

    def put(self, source: Source, architecture: Architecture, cubin: bytes) -> None:
        """Store a variant that this compiler has compiled. Raises CompilerError if the folder cannot be written."""
        assert self.compiler is not None, "there is no compiler"
        try:
            _write(self._path(source, architecture, self.compiler), cubin)
        except OSError as error:
            raise CompilerError(self._refused(error)) from None

    def _refused(self, error: OSError) -> str:
        return f"compiled kernels cannot be stored in {self.folder}: {error.strerror}"

    def _path(self, source: Source, architecture: Architecture, compiler: CubinMaker) -> Path:
        name = f"{_stem(source, architecture)}-{compiler.version.replace(' ', '-')}.cubin"
        return self.folder / architecture.name / name

    def _built_ahead(self, source: Source, architecture: Architecture) -> bytes:
        folder = self.folder / architecture.name
        for path in sorted(folder.glob(f"{_stem(source, architecture)}-*.cubin"), reverse=True):
            kept = _read(path)
            if kept is not None:
                return kept
        raise CompilerError(
            f"{folder} has no cubin of {source.path} ({source.key}) for {architecture.name} and this machine has no "
            f"CUDA compiler; run `edgemeta kernels build --arch {architecture.name}` on a machine that has one"
        )


def _stem(source: Source, architecture: Architecture) -> str:
    return f"{source.key}-{digest(source, architecture)[:24]}"


def digest(source: Source, architecture: Architecture) -> str:
    """SHA-256, in hex, of all texts and options that determine the code of a variant, except the compiler."""
    total = hashlib.sha256()
    total.update(source.text.encode())
    for path in files_of(source):
        total.update(path.read_bytes() + b"\0")
    arguments = [option for option in options(source, architecture) if not option.startswith("--include-path")]
    total.update("\0".join([source.entry, *arguments]).encode())
    return total.hexdigest()


def files_of(source: Source) -> list[Path]:
    """The files that a variant is compiled from: its own, unless its text is generated, and all that are included."""
    generated = dict.fromkeys(_INCLUDE.findall(source.text))
    first = [SOURCES / name for name in generated] if source.text else [SOURCES / source.path]
    return list(dict.fromkeys(text for each in first for text in texts(each)))


def texts(path: Path) -> list[Path]:
    """A source file and all files that it includes, each once, in the order of first inclusion."""
    found: list[Path] = []
    waiting = [path]
    while waiting:
        current = waiting.pop()
        if current in found:
            continue
        found.append(current)
        for name in _INCLUDE.findall(current.read_text("utf-8")):
            beside, below = current.parent / name, SOURCES / name
            waiting.append((beside if beside.is_file() else below).resolve())
    return found


def _read(path: Path) -> bytes | None:
    """A stored cubin; None if it is missing or damaged."""
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        log.warning("compiled kernel %s cannot be read: %s", path, error)
        return None
    cubin, sum_ = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if hashlib.sha256(cubin).digest() != sum_:
        log.warning("compiled kernel %s is damaged and is ignored", path)
        return None
    return cubin


def _write(path: Path, cubin: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(cubin + hashlib.sha256(cubin).digest())
        Path(name).chmod(0o644)  # the service may run as another user than the one who compiled
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
