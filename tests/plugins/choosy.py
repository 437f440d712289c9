"""A backend that supports only some kinds of layers: the reference, which refuses the others."""

from collections.abc import Callable, Mapping, Sequence

from edgemeta.model.graph import Model
from edgemeta.model.layers import Layer, TensorType
from edgemeta.plugins.api import BackendError, Batch, Outputs, Probe, Session
from edgemeta.plugins.compile import refusals_of
from edgemeta.plugins.reference.backend import BACKEND as REFERENCE


class ChoosySession:
    """A session of the reference that counts itself among the open ones of its backend."""

    def __init__(self, backend: "ChoosyBackend", session: Session) -> None:
        self._backend, self._session, self._is_open = backend, session, True
        backend.open += 1

    def run(self, batch: Batch) -> Outputs:
        if self._backend.fails_with is not None:
            raise self._backend.fails_with
        return self._session.run(batch)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._backend.open -= 1
            self._session.close()


class ChoosyBackend:
    """refuses: whether it refuses a layer. models: what it has compiled. fails_with: raised by the next runs."""

    name = "choosy"

    def __init__(self, refuses: Callable[[Layer], bool]) -> None:
        self.refuses = refuses
        self.models: list[Model] = []
        self.options: list[Mapping[str, object]] = []
        self.open = 0
        self.fails_with: BackendError | None = None

    def probe(self) -> Probe:
        return Probe(True, "the reference, in part")

    def supports(self, layer: Layer, inputs: Sequence[TensorType]) -> str | None:
        return f"{type(layer).__name__} is not supported" if self.refuses(layer) else None

    def compile(self, model: Model, options: Mapping[str, object]) -> Session:
        assert refusals_of(model, self) == {}
        self.models.append(model)
        self.options.append(options)
        return ChoosySession(self, REFERENCE.compile(model, {}))


def without(*kinds: type[Layer]) -> ChoosyBackend:
    """A backend that refuses these kinds."""
    return ChoosyBackend(lambda layer: isinstance(layer, kinds))
