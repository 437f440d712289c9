"""What came of a swap, as the swap message tells it."""

from collections.abc import Sequence

from edgemeta.daemon.messages import ExchangedModel, SwapResult, SwapTimes
from edgemeta.daemon.network import Network
from edgemeta.daemon.swap.exchange import Exchange
from edgemeta.daemon.swap.shadow import Shadow
from edgemeta.daemon.swap.trial import Trial


class SwapReport:
    """What came of a swap, and how long it took."""

    def __init__(self, exchanges: Sequence[Exchange]) -> None:
        self.exchanges = exchanges
        self.result = SwapResult.SWAPPED
        self.reason: str | None = None
        self.shadow: Shadow | None = None
        self.trial: Trial | None = None
        self.shadow_ns: int | None = None
        self.trial_ns: int | None = None

    @property
    def words(self) -> str:
        """For people."""
        return self.reason or f"model swapped: {'; '.join(each.words for each in self.exchanges)}"

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
        fresh: dict[int, Network] = {id(each.after): each.after for each in self.exchanges}
        makings = [network.making for network in fresh.values()]
        if not makings:
            return SwapTimes()
        return SwapTimes(
            verify=sum(making.verify for making in makings) // 1000,
            compile=sum(making.compile for making in makings) // 1000,
            warm_up=sum(making.warm_up for making in makings) // 1000,
            self_test=sum(making.self_test for making in makings) // 1000,
            shadow=None if self.shadow_ns is None else self.shadow_ns // 1000,
            trial=None if self.trial_ns is None else self.trial_ns // 1000,
        )
