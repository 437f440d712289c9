"""Display names of the forms of launch."""

from edgemeta.kernels.cuda.plan.launch_plan import Launch


def form_of(launch: Launch) -> str:
    """The kernel, and what else its products depend on."""
    kernel, tile = launch.source.path.rpartition("/")[0], launch.tile
    if kernel == "popc":
        return f"popc, {tile['bases']} planes of weights x {tile['bits']} of activations"
    if "fields" in tile:
        return f"{kernel}, {tile['fields']} fields"
    if kernel == "tensor":
        return f"{kernel}, int{tile['bits']}"
    return kernel


def forms_of(launches: tuple[Launch, ...]) -> dict[str, str]:
    """By the names of the steps; those of a joined launch one by one."""
    apart = [each for launch in launches for each in (launch.joins or (launch,))]
    return {"+".join(each.layers): form_of(each) for each in apart}
