"""The tracker for a model's task."""

from collections.abc import Iterator

from edgemeta.daemon.inference.tracking.counts import CountTracker
from edgemeta.daemon.inference.tracking.detection import DetectionTracker
from edgemeta.daemon.inference.tracking.label import LabelTracker
from edgemeta.daemon.inference.tracking.tracker import NoTracker, Tracker
from edgemeta.model.graph import Model
from edgemeta.model.tasks import Classification, Detection, Embedding, Keypoints, MultiLabel, Raw, Segmentation


def tracker_of(model: Model, ids: Iterator[int], running: Tracker | None = None) -> Tracker:
    """The tracker for a model's task: the running one, if it is of that kind. Objects of other labels end.

    ids: of the objects of the camera, whichever tracker follows them.
    """
    kinds: dict[type, type[Tracker]] = {
        Classification: LabelTracker,
        MultiLabel: CountTracker,
        Detection: DetectionTracker,
        Embedding: NoTracker,
        Segmentation: CountTracker,
        Keypoints: NoTracker,
        Raw: NoTracker,
    }
    kind = kinds[type(model.task)]
    if running is not None and type(running) is kind:
        tracker = running
    else:
        tracker = DetectionTracker(ids) if kind is DetectionTracker else kind()
    if isinstance(tracker, DetectionTracker):
        tracker.set_labels(model.labels)
    return tracker
