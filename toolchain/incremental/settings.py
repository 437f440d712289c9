"""How an incremental quantization is done: bits, shares, rule of choice, annealing and retraining."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise

from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.incremental.freezing import RULES, Rule
from edgemeta.toolchain.quantize.exponents import EXPONENT_CHOICES, ExponentChoice

BITS = (5, 4, 3, 2)
PAPER_SHARES = (0.2, 0.5, 0.7, 1.0)


@dataclass(frozen=True)
class IncrementalSettings:
    """Parameters of an incremental quantization; a checkpoint belongs to one set of them.

    bits: of a weight's code; widths: of each layer's, by its name, in place of it; empty: none. shares: Rq, the share
    of each layer's weights that is frozen after each step. rule: what is frozen first. exponents: how those of a layer
    are chosen (`least_exponents`). epochs: passes over the training images after each freezing. heat: temperature T of
    the annealing in the first epoch of a step, falling to 0 in its last; in every epoch each frozen weight is released
    with the probability exp(-1 / T) and frozen again at its end; 0: no annealing. lr: learning rate at the start of
    each step, falling to zero along half a cosine. soft: weight of the loss against the float network's logits, at
    `softness` as temperature; the rest is that of the labels. pad: greatest shift of a crop in pixels. alternate_share:
    probability of using the alternative pixels of an image that has them. held_out: share of the training images of
    each class that is only measured.
    """

    bits: int = 5
    widths: Mapping[str, int] = field(default_factory=dict)
    shares: tuple[float, ...] = PAPER_SHARES
    rule: Rule = "error"
    exponents: ExponentChoice = "mse"
    heat: float = 1.0
    epochs: int = 2
    batch: int = 128
    lr: float = 0.02
    momentum: float = 0.9
    weight_decay: float = 2e-4
    soft: float = 0.9
    softness: float = 3.0
    pad: int = 4
    alternate_share: float = 0.5
    held_out: float = 0.1
    seed: int = 1

    def __post_init__(self) -> None:
        for of, bits in {"bits": self.bits, **self.widths}.items():
            if bits not in BITS:
                raise QuantizeError(f"{of} is {bits}, expected one of {', '.join(map(str, BITS))}")
        if self.rule not in RULES:
            raise QuantizeError(f"the rule is {self.rule!r}, expected one of {', '.join(RULES)}")
        if self.exponents not in EXPONENT_CHOICES:
            raise QuantizeError(f"exponents is {self.exponents!r}, expected one of {', '.join(EXPONENT_CHOICES)}")
        ends = (0.0, *self.shares, 1.0)
        if not self.shares or any(b < a for a, b in pairwise(ends)):
            raise QuantizeError(f"the shares are {self.text_of_shares}, expected growing numbers from 0 to 1")
        if self.epochs < 1 or self.batch < 1:
            raise QuantizeError(f"epochs is {self.epochs} and batch {self.batch}, expected at least 1")
        if not 0 < self.lr < float("inf"):
            raise QuantizeError(f"the learning rate is {self.lr:g}, expected a finite number above 0")
        if not 0 <= self.heat < float("inf"):
            raise QuantizeError(f"the temperature is {self.heat:g}, expected a finite number of at least 0")

    @property
    def all_epochs(self) -> int:
        """Epochs of all steps."""
        return self.epochs * len(self.shares)

    @property
    def text_of_shares(self) -> str:
        """The shares, such as "0.2, 0.5, 0.7, 1"."""
        return ", ".join(f"{share:g}" for share in self.shares)

    def require_all(self) -> None:
        """Raise QuantizeError unless the last step freezes all weights, without which there is no integer network."""
        if self.shares[-1] != 1:
            raise QuantizeError(f"the shares are {self.text_of_shares}, expected 1 as the last one")

    def digest(self, start: str) -> str:
        """SHA-256 (hex) of all parameters and of the digest of the float model to start from."""
        return hashlib.sha256(json.dumps([self._stated(), start], sort_keys=True).encode()).hexdigest()

    def provenance(self) -> Mapping[str, object]:
        """As the model file states them."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in self._stated().items()}

    def _stated(self) -> dict[str, object]:
        return {key: value for key, value in asdict(self).items() if key != "widths" or value}
