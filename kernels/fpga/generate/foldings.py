"""Chooses the foldings of a network: the least logic that reaches a number of clocks per image.

The slowest engine sets the clocks per image, so each engine may be chosen on its own: of the foldings that need at most
so many clocks the one with the fewest predicted LUTs, found by trying all.
"""

from collections.abc import Mapping

from edgemeta.kernels.fpga.generate.cost import predicted_bram36, predicted_lut
from edgemeta.kernels.fpga.generate.engines import Engine
from edgemeta.kernels.fpga.generate.network import FpgaError, Network, plan_network
from edgemeta.model.graph import Model

DEFAULT_CYCLES = 21_000
"""Clocks per image without another wish: 4,760 images per second at 100 MHz."""


def choose_foldings(model: Model, cycles: int | None = None, *, constant: bool = False) -> Network:
    """The network with the least predicted logic of at most `cycles` clocks per image.

    cycles None: DEFAULT_CYCLES, or what the slowest engine needs at least if that is more. Raises FpgaError where a
    goal cannot be reached.
    """
    candidates = _candidates(model, constant)
    fastest = {name: min(engine.steps for engine in found) for name, found in candidates.items()}
    slowest = max(fastest, key=lambda name: fastest[name])
    goal = cycles if cycles is not None else max(DEFAULT_CYCLES, fastest[slowest])
    if fastest[slowest] > goal:
        raise FpgaError(
            f"layer {slowest!r} takes at least {fastest[slowest]} clocks per image, asked for are {goal}: its input "
            "arrives one integer per clock"
        )
    chosen = {}
    for name, found in candidates.items():
        reaching = [each for each in found if each.steps <= goal and "FOLDS" in each.parameters]
        if reaching:
            chosen[name] = -min((predicted_lut(each), -int(each.parameters["FOLDS"])) for each in reaching)[1]
    return plan_network(model, chosen, constant=constant)


def predicted(network: Network) -> Mapping[str, tuple[int, float]]:
    """LUTs and block RAMs by engine."""
    return {engine.name: (predicted_lut(engine), predicted_bram36(engine)) for engine in network.engines}


def _candidates(model: Model, constant: bool) -> dict[str, list[Engine]]:
    """Every engine with every number of folds that divides its channels, by layer."""
    base = plan_network(model, {}, constant=constant)
    channels = {e.name: int(e.parameters["C"]) for e in base.engines if e.module == "edgemeta_conv"}
    found = {engine.name: [] if engine.name in channels else [engine] for engine in base.engines}
    for folds in sorted({f for count in channels.values() for f in range(1, count + 1) if count % f == 0}):
        foldings = {name: folds for name, count in channels.items() if count % folds == 0}
        for engine in plan_network(model, foldings, constant=constant).engines:
            if engine.name in foldings:
                found[engine.name].append(engine)
    return found
