"""Writes cli/doctor/networks.zip: the small networks of `edgemeta doctor`, and ResNet-8 as other runtimes read it.

    python -m tools.doctor_networks

From the conformance table: every operator in its usual setting, and CHOSEN. Each with a self-test, whose outputs are
the reference's. A test says when the file is not in step.
"""

import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.onnx_graph import to_onnx
from benchmarks.tflite_graph import write_tflite
from edgemeta.cli.doctor.kernels import NETWORKS
from edgemeta.model.file import encode, load
from edgemeta.model.self_test import with_self_test
from edgemeta.model.zoo import find
from tests.conformance.cases import CASES
from tests.conformance.generated import limits
from tests.conformance.operators import OPERATORS

CHOSEN = (
    *("conv-3x3-signed", "conv-3x3-odd-unsigned", "conv-3x3-image-unsigned", "conv-3x3-stride2-signed"),
    *("conv-1x1-wide-signed", "conv-5x5-unsigned", "residual-block-multiplier", "space-to-depth-depthwise"),
    *("fixed1-layer", "fixed2-channel", "fixed3-layer", "fixed4-channel", "fixed6-layer", "binary2", "binary8"),
    *("power-of-two3", "power-of-two5", "activation-unsigned1-inside", "activation-unsigned2-inside"),
    *("activation-signed4-inside", "w4a4-1x1-unsigned", "w4a4-3x3-signed", "first-depthwise-3-signed"),
    *("first-dense-bases", "requantize-shift-0", "conv-3x3-depthwise-stride2-unsigned", "depthwise-3x5-2x2-1x1-17"),
    *("depthwise-3x3-1x1-1x1-48", "table-chain-of-image", "concat-of-every-kind", "extreme-weights-lowest-1x1-signed"),
)
RESNET8 = "resnet8-cifar10"
DAY = (2026, 11, 28, 0, 0, 0)


def files() -> Iterator[tuple[str, bytes]]:
    """Name and content of every file."""
    table = {case.name: case for case in CASES}
    for case in (*(next(limits(operator)) for operator in OPERATORS), *(table[name] for name in CHOSEN)):
        yield f"{case.name}.safetensors", encode(with_self_test(case.model))
    model = load(find(RESNET8))
    yield f"{RESNET8}.onnx", to_onnx(model)
    with tempfile.TemporaryDirectory() as folder:
        yield f"{RESNET8}.tflite", write_tflite(model, Path(folder) / "model").read_bytes()


def main() -> None:
    """Write the file."""
    with zipfile.ZipFile(NETWORKS, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in files():
            archive.writestr(zipfile.ZipInfo(name, DAY), content, zipfile.ZIP_DEFLATED, 9)


if __name__ == "__main__":
    main()
