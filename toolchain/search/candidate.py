"""The network of one trial, measured step by step: with the weights as they are, or trained before each step."""

from collections.abc import Callable

from edgemeta.model.errors import ModelError
from edgemeta.model.graph import Model
from edgemeta.toolchain.errors import QuantizeError, SimulateError
from edgemeta.toolchain.search.config import Step
from edgemeta.toolchain.search.evaluator import Evaluator, Running


class Candidate:
    """Is built when a step needs it, and again only for a step with other epochs.

    build: makes the network, trained for so many epochs. model: the newest one; None before the first step and where
    there is none with these bits, because a number does not fit. error: the reason then.
    """

    def __init__(self, evaluator: Evaluator, build: Callable[[int], Model]) -> None:
        self._evaluator, self._build = evaluator, build
        self._epochs: int | None = None
        self._running: Running | None = None
        self.model: Model | None = None
        self.error: str | None = None

    def accuracy(self, step: Step) -> float:
        """Share 0..1 of the step's images that are classified correctly, 0 where there is no network."""
        if step.epochs != self._epochs:
            self._renew(step.epochs)
        return 0.0 if self._running is None else self._running.accuracy(step.images)

    def close(self) -> None:
        """Free the session."""
        if self._running is not None:
            self._running.close()
            self._running = None

    def _renew(self, epochs: int) -> None:
        self.close()
        self._epochs, self.model, self.error = epochs, None, None
        try:
            model = self._build(epochs)
            self._running = self._evaluator.run(model)
        except (QuantizeError, SimulateError, ModelError) as error:
            self.error = str(error)
        else:
            self.model = model
