"""What scheme `auto` knows of one float network, and the integer networks that it builds from it."""

from edgemeta.model.graph import Model
from edgemeta.toolchain.float_model.graph import FloatModel
from edgemeta.toolchain.float_model.shapes import check
from edgemeta.toolchain.quantize.blocks import blocks_of
from edgemeta.toolchain.quantize.calibrate import Statistics
from edgemeta.toolchain.quantize.choices import Choice
from edgemeta.toolchain.quantize.compare import LayerError, layer_errors
from edgemeta.toolchain.quantize.correct import corrected
from edgemeta.toolchain.quantize.events import Events
from edgemeta.toolchain.quantize.feedback import MOMENT_IMAGES, second_moments
from edgemeta.toolchain.quantize.image_type import image_type
from edgemeta.toolchain.quantize.images import PreparedImages
from edgemeta.toolchain.quantize.integer_layers import Builder, raw_outputs
from edgemeta.toolchain.quantize.tensor_types import tensor_types
from edgemeta.toolchain.quantize.weights import LayerWeights

LAYER_IMAGES = 8


class Prepared:
    """A float network with the data needed to build integer networks from it."""

    def __init__(self, model: FloatModel, images: PreparedImages, events: Events) -> None:
        self._model, self._images, self._observer = model, images, events
        self._shapes, self._blocks = check(model, model.name), blocks_of(model)
        self._raw = raw_outputs(model, self._blocks)
        self.statistics = Statistics(model, self._blocks, images, events.stage("ranges"))
        self._plain = LayerWeights(self._blocks)
        self._with_feedback: LayerWeights | None = None

    def builder(self, choice: Choice) -> Builder:
        """What builds the integer model of a choice."""
        types = tensor_types(image_type(self._model), self._shapes, self._blocks, self.statistics, choice.ranges)
        weights = self._feedback() if choice.feedback else self._plain
        return Builder(self._model, self._blocks, types, weights, choice, self._raw, self._model.is_classification)

    def corrected(self, choice: Choice) -> Choice:
        """The choice with bias corrections added."""
        return corrected(self.builder(choice), self.statistics.means, self._images, self._observer.stage("biases"))

    def layer_errors(self, integer: Model) -> tuple[LayerError, ...]:
        """The error of every layer, on a few images."""
        few = self._images.chosen(LAYER_IMAGES)
        return layer_errors(self._model, self._blocks, integer, few, self._observer.stage("layers"))

    def _feedback(self) -> LayerWeights:
        if self._with_feedback is None:
            few = self._images.chosen(MOMENT_IMAGES)
            moments = second_moments(self._model, self._blocks, few, self._observer.stage("rounding"))
            self._with_feedback = self._plain.with_moments(moments)
        return self._with_feedback
