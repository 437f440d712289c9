"""The reference interpreter (`model.reference`) as a backend."""

from collections.abc import Mapping, Sequence

from edgemeta.model import reference
from edgemeta.model.graph import Model
from edgemeta.model.layers import Layer, TensorType
from edgemeta.plugins.api import BackendError, Batch, Outputs, Probe, Session
from edgemeta.plugins.options import reject_unknown
from edgemeta.plugins.session import check_batch

_NAME = "reference"


class ReferenceSession:
    """A model that the interpreter runs layer by layer. It allocates on every call; speed is not its purpose."""

    def __init__(self, model: Model) -> None:
        self._model: Model | None = model

    def run(self, batch: Batch) -> Outputs:
        """As `Session.run`."""
        if self._model is None:
            raise BackendError(f"backend {_NAME}: the session is closed")
        check_batch(_NAME, self._model, batch)
        return reference.run(self._model, batch)

    def close(self) -> None:
        """As `Session.close`."""
        self._model = None


class ReferenceBackend:
    """As `Backend`; it has no options."""

    name = _NAME

    def probe(self) -> Probe:
        """Always available, since NumPy is required anyway."""
        return Probe(True, "NumPy, the reference for all other backends", 1)

    def supports(self, layer: Layer, inputs: Sequence[TensorType]) -> str | None:
        """As `Backend.supports`: every layer."""
        return None

    def compile(self, model: Model, options: Mapping[str, object]) -> Session:
        """As `Backend.compile`."""
        reject_unknown(_NAME, options, ())
        return ReferenceSession(model)


BACKEND = ReferenceBackend()
