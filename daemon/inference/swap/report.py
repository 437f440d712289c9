"""What came of a swap, as the swap message tells it."""

from collections.abc import Collection, Sequence
from dataclasses import fields

from edgemeta.daemon.inference.loaded_model import Making, Network
from edgemeta.daemon.inference.swap.replacement import Exchange
from edgemeta.daemon.inference.swap.shadow import Shadow
from edgemeta.daemon.inference.swap.trial import Trial
from edgemeta.daemon.messages.records import ExchangedModel, SwapResult, SwapTimes

MAKING = tuple(field.name for field in fields(Making))


class SwapReport:
    """What came of a swap, and how long it took."""

    def __init__(self, exchanges: Sequence[Exchange], at_work: Collection[Network] = ()) -> None:
        self.exchanges = exchanges
        self._fresh = {each.after for each in exchanges} - set(at_work)
        self.result = SwapResult.SWAPPED
        self.reason: str | None = None
        self.shadow: Shadow | None = None
        self.trial: Trial | None = None
        self.shadow_ns: int | None = None
        self.trial_ns: int | None = None

    @property
    def words(self) -> str:
        """For people, with what the shadow run has shown."""
        return self.reason or f"model swapped: {'; '.join(map(self._words_of, self.exchanges))}"

    def _words_of(self, exchange: Exchange) -> str:
        if self.shadow is None:
            return exchange.words
        found = self.shadow.result(exchange)
        return (
            f"{exchange.words} ({found.frames} frames beside each other: {found.same_label:.0%} got the same label, "
            f"{found.after_us} us a frame instead of {found.before_us} us)"
        )

    @property
    def models(self) -> list[ExchangedModel]:
        """The networks, for the message."""
        return [
            ExchangedModel(
                cameras=list(each.cameras),
                before=each.before.identity,
                after=each.after.identity,
                backend=each.after.backend,
                shadow=self.shadow.result(each) if self.shadow is not None else None,
                served=self.trial.served(each) if self.trial is not None else 0,
            )
            for each in self.exchanges
        ]

    @property
    def took_us(self) -> SwapTimes:
        """The times, for the message; those of making ready are sums over the new networks."""
        makings = [network.making for network in self._fresh]
        made = {step: sum(getattr(making, step) for making in makings) // 1000 for step in MAKING} if makings else {}
        return SwapTimes(
            **made,
            shadow=None if self.shadow_ns is None else self.shadow_ns // 1000,
            trial=None if self.trial_ns is None else self.trial_ns // 1000,
        )
