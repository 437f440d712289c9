"""Which form of a network runs if the option `launch` does not say: a CUDA graph of its launches, or one of them all.

Taken from a prediction that `edgemeta kernels build` has stored, never made here: that would take a minute. Without
one, or where blocks that wait for each other are not safe, it is the graph. The log says why.
"""

import logging
import os
from pathlib import Path

from edgemeta.kernels.cuda.compile.cache import Cubins
from edgemeta.kernels.cuda.one_launch.choice import CLUSTER, GRAPH, NETWORK, forms_of, stored
from edgemeta.kernels.cuda.plan.launch_plan import LaunchPlan, UnsupportedError
from edgemeta.kernels.cuda.preprocess.launch import PREPROCESSING

_log = logging.getLogger(__name__)

_NAMES = {
    GRAPH: "a CUDA graph of its launches",
    NETWORK: "one launch of the whole network",
    CLUSTER: "one launch of the whole network, its blocks one cluster",
}


def faster_form(plan: LaunchPlan, multiprocessors: int, cubins: Cubins) -> LaunchPlan:
    """The plan itself or the same network as one launch, by predicted time; logs the choice and its reason.

    So for a network with the preprocessing of its frames.
    """
    form, name, reason = _chosen(plan, multiprocessors, cubins)
    what = "launch with preprocessing" if plan.launches[0].layers == PREPROCESSING else "launch"
    _log.info("%s: %s: %s", what, _NAMES[name], reason)
    return form


def _chosen(plan: LaunchPlan, multiprocessors: int, cubins: Cubins) -> tuple[LaunchPlan, str, str]:
    """The form's plan, its name and the reason."""
    try:
        forms = forms_of(plan, multiprocessors)
    except UnsupportedError as error:
        return plan, GRAPH, str(error)
    prediction = stored(cubins.folder, forms)
    if prediction is None:
        reason = f"no prediction for these kernels is in {cubins.folder}; `edgemeta kernels build` makes them"
        return plan, GRAPH, reason
    form = forms[prediction.fastest]
    if form is plan:
        return plan, GRAPH, str(prediction)
    if not all(cubins.has(source, plan.architecture) for source in form.sources):
        return plan, GRAPH, f"{prediction}, but its kernel is not compiled; `edgemeta kernels build` does it"
    if _is_shared():
        return plan, GRAPH, f"{prediction}, but the GPU is shared through MPS, where its blocks might wait for ever"
    return form, prediction.fastest, str(prediction)


def _is_shared() -> bool:
    """Whether NVIDIA's multi-process service runs: other processes' kernels may hold places of the blocks."""
    return Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"), "control").exists()  # noqa: S108
