"""edgemeta-proof, the distribution that counts machine code: what asks for it says how it is installed."""

from collections.abc import Iterator
from contextlib import contextmanager

from edgemeta.toolchain.errors import MissingExtraError


@contextmanager
def proof_installed(what: str) -> Iterator[None]:
    """Around an import of edgemeta_proof. Raises MissingExtraError without it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "edgemeta_proof":
            raise
        raise missing_proof(what) from error


def missing_proof(what: str) -> MissingExtraError:
    """The error of a command that needs what the extras `cuda-compiler` and `report` install."""
    return MissingExtraError(
        f"{what} needs edgemeta-proof and a CUDA compiler: pip install 'edgemeta[cuda-compiler,report]', "
        "in a checkout pip install -e ./proof -e '.[cuda-compiler,report]'"
    )
