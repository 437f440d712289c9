"""Result of a model swap, for the swap message."""

from collections.abc import Collection, Sequence
from dataclasses import fields

from edgemeta.daemon.inference.loaded_model import LoadedModel, LoadTimes
from edgemeta.daemon.inference.swap.replacement import Replacement
from edgemeta.daemon.inference.swap.shadow import Shadow
from edgemeta.daemon.inference.swap.trial import Trial
from edgemeta.daemon.messages.swaps import ExchangedModel, ShadowResult, SwapResult, SwapTimes

LOAD_TIMES = tuple(field.name for field in fields(LoadTimes))


class SwapReport:
    """Result of a swap, and how long each step took."""

    def __init__(self, replacements: Sequence[Replacement], running: Collection[LoadedModel] = ()) -> None:
        self.replacements = replacements
        self._fresh = {each.after for each in replacements} - set(running)
        self.result = SwapResult.SWAPPED
        self.reason: str | None = None
        self.shadow: Shadow | None = None
        self.trial: Trial | None = None
        self.shadow_ns: int | None = None
        self.trial_ns: int | None = None

    @property
    def description(self) -> str:
        """One line for the log, with the result of the shadow run."""
        return self.reason or f"model swapped: {'; '.join(map(self._description_of, self.replacements))}"

    def _description_of(self, replacement: Replacement) -> str:
        found = self._shadow_of(replacement)
        if found is None:
            return replacement.description
        return (
            f"{replacement.description} ({found.frames} frames in the shadow run: "
            f"{found.same_label:.0%} got the same label, "
            f"{found.after_us} us per frame instead of {found.before_us} us)"
        )

    def _shadow_of(self, replacement: Replacement) -> ShadowResult | None:
        return None if self.shadow is None else self.shadow.result(replacement)

    @property
    def models(self) -> list[ExchangedModel]:
        """The replaced models, for the message."""
        return [
            ExchangedModel(
                cameras=list(each.cameras),
                before=each.before.identity,
                after=each.after.identity,
                backend=each.after.backend,
                shadow=self._shadow_of(each),
                served=self.trial.served(each) if self.trial is not None else 0,
            )
            for each in self.replacements
        ]

    @property
    def took_us(self) -> SwapTimes:
        """The times, for the message; the times of loading are sums over the new models."""
        makings = [loaded.load_times for loaded in self._fresh]
        made = (
            {step: sum(getattr(load_times, step) for load_times in makings) // 1000 for step in LOAD_TIMES}
            if makings
            else {}
        )
        return SwapTimes(
            **made,
            shadow=None if self.shadow_ns is None else self.shadow_ns // 1000,
            trial=None if self.trial_ns is None else self.trial_ns // 1000,
        )
