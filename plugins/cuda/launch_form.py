"""Which form of a network runs if the option `launch` does not say: a CUDA graph of its launches, or one launch.

Taken from a prediction that `edgemeta kernels build` has stored, never made here: that would take a minute. Without
one, or where blocks that wait for each other are not safe, it is the graph. The log says why.
"""

import logging
import os
from pathlib import Path

from edgemeta.kernels.cuda.compile.cache import Cubins
from edgemeta.kernels.cuda.one_launch.choice import stored
from edgemeta.kernels.cuda.one_launch.plan import one_launch
from edgemeta.kernels.cuda.plan.launch_plan import LaunchPlan, UnsupportedError
from edgemeta.kernels.cuda.preprocess.launch import PREPROCESSING

_log = logging.getLogger(__name__)


def faster_form(plan: LaunchPlan, multiprocessors: int, cubins: Cubins) -> LaunchPlan:
    """The plan itself or the same network as one launch, by predicted time; logs the choice and its reason.

    So for a network with the preprocessing of its frames.
    """
    form, reason = _chosen(plan, multiprocessors, cubins)
    name = "one launch of the whole network" if form is not plan else "a CUDA graph of its launches"
    what = "launch with preprocessing" if plan.launches[0].layers == PREPROCESSING else "launch"
    _log.info("%s: %s: %s", what, name, reason)
    return form


def _chosen(plan: LaunchPlan, multiprocessors: int, cubins: Cubins) -> tuple[LaunchPlan, str]:
    try:
        joined = one_launch(plan, multiprocessors)
    except UnsupportedError as error:
        return plan, str(error)
    prediction = stored(cubins.folder, plan, joined)
    if prediction is None:
        return plan, f"no prediction for these kernels is in {cubins.folder}; `edgemeta kernels build` makes them"
    if not prediction.prefers_network:
        return plan, str(prediction)
    if not all(cubins.has(source, plan.architecture) for source in joined.sources):
        return plan, f"{prediction}, but its kernel is not compiled; `edgemeta kernels build` does it"
    if _is_shared():
        return plan, f"{prediction}, but the GPU is shared through MPS, where its blocks might wait for ever"
    return joined, str(prediction)


def _is_shared() -> bool:
    """Whether NVIDIA's multi-process service runs: other processes' kernels may hold places of the blocks."""
    return Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"), "control").exists()  # noqa: S108
