"""Teach: a folder of pictures for each class becomes a model file, in seconds, without PyTorch.

A backbone's layers are kept; a few of their tensors, averaged over a coarse grid, are features; a regularized
linear function of these is the head. All of it is integer layers of an ordinary model.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from edgemeta.model.callbacks import Report
from edgemeta.model.file import save
from edgemeta.model.graph import Model
from edgemeta.model.prove import prove
from edgemeta.model.self_test import with_self_test
from edgemeta.model.tasks import Classification, Rejection
from edgemeta.toolchain.data.class_folders import list_class_folders
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.evaluate.confidence import fit_doubtful_temperature
from edgemeta.toolchain.evaluate.rejection import fit_logit_threshold
from edgemeta.toolchain.teach.backbone import Plan, layers_for, make_plan
from edgemeta.toolchain.teach.features import Channels, feature_layers, importance, measure_channels, unmeasured
from edgemeta.toolchain.teach.findings import Findings, find
from edgemeta.toolchain.teach.head import Head
from edgemeta.toolchain.teach.pictures import Pictures, Region, chosen, look_at
from edgemeta.toolchain.teach.table import make_table
from edgemeta.toolchain.teach.validation import FOLDS, Choice, Validated, Validation, folds

Crop = Literal["full", "center"]
TeachStage = Literal["pictures", "fits"]
TeachProgress = Callable[[TeachStage, int, int], None]
"""Is called with a stage, how many of its parts are done, and of how many."""


@dataclass(frozen=True)
class Settings:
    """How to teach. side: of the image in pixels; None: as the backbone says. crop: what of a picture the network sees.

    region: takes the part of each picture that counts, or finds the object in it; region_keys, objects: the same for
    the file's provenance, as the config names it, or label and detection.
    """

    name: str
    side: int | None = None
    crop: Crop = "full"
    region: Region | None = None
    region_keys: Mapping[str, float] | None = None
    objects: Mapping[str, object] | None = None


@dataclass(frozen=True, eq=False)
class Taught:
    """The model and what is known of it. pictures: of each label. left: pictures that were not looked at."""

    model: Model
    findings: Findings
    pictures: Mapping[str, int]
    left: int
    choice: Choice


def teach(folder: Path, backbone: Model, settings: Settings, report: Report, progress: TeachProgress) -> Taught:
    """Teach a model the classes of a folder. report: is called with a sentence for what is left out.

    Raises DataError for a folder with fewer than two classes or without pictures, TeachError for a class with too few
    of them and a backbone that cannot serve, ModelError if the network would be too large for a model file.
    """
    files = list_class_folders(folder, report)
    some = chosen(files)
    plan = make_plan(backbone, settings.side)
    draft = _draft(backbone, plan, settings.crop, files.labels)
    prove(draft)  # before any of it runs
    network = replace(draft, layers=layers_for(backbone, plan), outputs=tuple(plan.grids))
    pictures = look_at(some, network, plan, settings.region, report, lambda *at: progress("pictures", *at))
    channels = _measured(pictures, network)
    layers = feature_layers(backbone, plan, channels)
    table = make_table(pictures, {layer.name: layer for layer in layers}, plan, importance(plan, channels))
    fold = folds(pictures.y, pictures.thumbnails)
    validated = Validation(table, fold, lambda *at: progress("fits", *at)).run()
    kind = validated.head.kind
    rejection = _rejection(validated, pictures, report)
    temperature = fit_doubtful_temperature(validated.logits, kind, pictures.y)
    findings = find(pictures, validated.logits, validated.fewer, kind, temperature)
    counts = {label: int(count) for label, count in zip(pictures.labels, pictures.counts, strict=True)}
    model = replace(
        draft,
        name=settings.name,
        layers=(*layers, validated.head.layer(layers[-1].name)),
        task=Classification(files.labels, temperature, rejection),
        provenance=_provenance(backbone, plan, settings, pictures, counts, validated, findings),
    )
    prove(model)
    return Taught(with_self_test(model), findings, counts, len(files) - len(pictures.y), validated.choice)


def write(taught: Taught, out: Path) -> str:
    """Write the model file and return its digest. Raises ModelError."""
    return save(taught.model, out)


def _draft(backbone: Model, plan: Plan, crop: Crop, labels: tuple[str, ...]) -> Model:
    """The whole network before anything is known of the pictures: its shapes and accumulators can be proved."""
    layers = feature_layers(backbone, plan, unmeasured(backbone, plan))
    size = int(np.prod(layers[-1].output.shape))
    head = Head(np.full((len(labels), size), 127, np.int8), np.zeros(len(labels), np.int32), 1.0)
    return Model(
        name=backbone.name,
        input=replace(backbone.input, shape=plan.shape),
        layers=(*layers, head.layer(layers[-1].name)),
        outputs=(head.layer(layers[-1].name).name,),
        task=Classification(labels),
        preprocessing=replace(backbone.preprocessing, crop=crop, fill=(0,), align="center"),
    )


def _measured(pictures: Pictures, network: Model) -> Mapping[str, Channels]:
    types = network.types
    return {name: measure_channels(sums[:, 0], types[name], sums.shape[2]) for name, sums in pictures.sums.items()}


def _rejection(validated: Validated, pictures: Pictures, report: Report) -> Rejection | None:
    """The threshold below which there is no label, by the pictures held out; None where hardly any is right."""
    try:
        return Rejection(fit_logit_threshold(validated.logits, pictures.y).threshold)
    except QuantizeError as error:
        report(str(error))
        return None


def _provenance(
    backbone: Model,
    plan: Plan,
    settings: Settings,
    pictures: Pictures,
    counts: Mapping[str, int],
    validated: Validated,
    findings: Findings,
) -> Mapping[str, object]:
    region: dict[str, object] = {} if settings.region_keys is None else {"region": dict(settings.region_keys)}
    if settings.objects is not None:
        region["objects"] = dict(settings.objects)
    return {
        "scheme": "taught",
        "backbone": {"name": backbone.name, "sha256": backbone.digest},
        "grids": dict(plan.grids),
        "pictures": dict(counts),
        "pixels_sha256": pictures.sha256,
        **region,
        "choice": asdict(validated.choice),
        "folds": FOLDS,
        "cross_validated_accuracy": round(findings.accuracy, 6),
    }
