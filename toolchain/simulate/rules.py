"""Rules: which layer uses which format in which role, from a YAML file or a dict."""

import json
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator

from edgemeta.model.yaml_file import Source, checked, read_entries
from edgemeta.toolchain.errors import SimulateError
from edgemeta.toolchain.number_formats.formats import Accumulator, Float32, Format, Integer, accumulator_of, format_of
from edgemeta.toolchain.number_formats.rounding import Rounding
from edgemeta.toolchain.simulate.quantizer import Roundings

ROLES = ("activation", "weight", "gradient", "weight_gradient")


class RoundingRules(BaseModel):
    """How to round in training and in evaluation."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    training: Rounding = "stochastic"
    evaluation: Rounding = "nearest_even"

    @field_validator("evaluation")
    @classmethod
    def _repeatable(cls, value: Rounding) -> Rounding:
        if value == "stochastic":
            raise ValueError("an evaluation must give the same result twice: stochastic is for training only")
        return value


class Rule(BaseModel):
    """Formats for the layers whose names match one of the patterns (`*`, `?`, `[…]`).

    activation: what a layer reads. weight: its weights. gradient: the gradient of what it gives, which its backward
    pass reads. weight_gradient: the gradient that the optimizer reads. accumulator: what holds a layer's sums. A role
    that is missing is left to earlier rules.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    layers: tuple[str, ...]
    activation: Format | None = None
    weight: Format | None = None
    gradient: Format | None = None
    weight_gradient: Format | None = None
    accumulator: Accumulator | Float32 | None = None

    @field_validator("layers", mode="before")
    @classmethod
    def _one_or_many(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @field_validator(*ROLES, mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        if value is None or isinstance(value, BaseModel):
            return value
        return format_of(value)

    @field_validator("accumulator", mode="before")
    @classmethod
    def _checked(cls, value: object) -> object:
        return value if value is None or isinstance(value, BaseModel) else accumulator_of(value)

    @field_validator("activation", "gradient")
    @classmethod
    def _one_histogram(cls, value: Format | None) -> Format | None:
        if isinstance(value, Integer) and value.per_channel and value.counts_elements:
            raise ValueError(f"an activation or a gradient has one range by `{value.observer}`, found `per_channel`")
        return value

    def covers(self, layer: str) -> bool:
        """Whether a pattern matches the layer's name."""
        return any(fnmatchcase(layer, pattern) for pattern in self.layers)

    @property
    def rounds_nothing(self) -> bool:
        """Whether it only leaves modules in float32."""
        given = [getattr(self, role) for role in (*ROLES, "accumulator")]
        return all(kind is None or isinstance(kind, Float32) for kind in given)


class Rules(BaseModel):
    """All rules; of several that cover a layer, the last one counts, role by role."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: int = Field(default=0, ge=0, lt=2**63)
    rounding: RoundingRules = RoundingRules()
    rules: tuple[Rule, ...] = Field(min_length=1)
    _source: Source = PrivateAttr(Source("the rules"))

    def read_from(self, source: Source) -> "Rules":
        """The same rules, which name this source in messages."""
        self._source = source
        return self

    def place_of(self, rule: int, key: str = "layers") -> str:
        """Where an entry of a rule, counted from 0, is written."""
        return self._source.at(("rules", rule, key))

    @property
    def roundings(self) -> Roundings:
        """How to round."""
        return Roundings(self.rounding.training, self.rounding.evaluation)

    def formats_of(self, layer: str) -> dict[str, Format]:
        """The format of each role that a rule gives to the layer."""
        found: dict[str, Format] = {}
        for rule in self.rules:
            if rule.covers(layer):
                found |= {role: kind for role in ROLES if (kind := getattr(rule, role)) is not None}
        return found

    def rounded_roles(self, layer: str) -> tuple[str, ...]:
        """The roles in which rules round the layer."""
        return tuple(role for role, kind in self.formats_of(layer).items() if not isinstance(kind, Float32))

    def accumulator_of(self, layer: str) -> tuple[str, Accumulator | Float32] | None:
        """The accumulator that a rule gives to the layer, and where it is written."""
        for number, rule in reversed(list(enumerate(self.rules))):
            if rule.accumulator is not None and rule.covers(layer):
                return self.place_of(number, "accumulator"), rule.accumulator
        return None


def load_rules(source: Path | Mapping[str, Any]) -> Rules:
    """Read rules. Raises SimulateError, which names the file and the line of what is wrong."""
    entries, origin = read_entries(source, "the rules", SimulateError)
    return checked(Rules, entries, origin, SimulateError).read_from(origin)


def rule_without(layers: Collection[str], names: Iterable[str], roles: Iterable[str]) -> str:
    """The text of a rule that leaves some layers in float32; its patterns cover no other one of `names`."""
    others = set(names) - set(layers)
    patterns = list(dict.fromkeys(_pattern(layer, others) for layer in sorted(layers)))
    return f"{{layers: {json.dumps(patterns)}, {', '.join(f'{role}: float32' for role in roles)}}}"


def _pattern(layer: str, others: Collection[str]) -> str:
    """`*.` and the last two parts of the name, or the name with `*` for its numbers, if that is enough; else the name.

    A number is no short name of a module, so the first is for names that end in two words.
    """
    parts = layer.split(".")
    words = not any(part.isdecimal() for part in parts[-2:])
    numbers = ".".join("*" if part.isdecimal() else part for part in parts)
    for short in ((".".join(["*", *parts[-2:]]),) if words else ()) + (numbers,):
        rule = Rule(layers=(short,))
        if rule.covers(layer) and not any(rule.covers(name) for name in others):
            return short
    return layer
