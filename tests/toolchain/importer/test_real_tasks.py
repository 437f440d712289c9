"""Segmentations and keypoints of others: what LiteRT and ONNX Runtime say of the same pictures."""

from pathlib import Path

import numpy as np
import pytest

from edgemeta.model import reference
from edgemeta.model.float_reference import outputs
from edgemeta.model.graph import FloatModel, Model
from edgemeta.model.preprocess import preprocess
from edgemeta.model.tasks import Keypoints, Segmentation
from edgemeta.tasks.results import reader
from edgemeta.toolchain.importer.heads.task_settings import TaskSettings
from edgemeta.toolchain.importer.import_network import import_network
from edgemeta.toolchain.importer.pixels import Pixels
from tests.toolchain.importer.test_real_detections import imported, pictures


@pytest.mark.gate("a network of 513 x 513 pixels in the reference")
def test_deeplab_has_the_labels_of_litert(shared_data: Path, tmp_path: Path) -> None:
    from ai_edge_litert.interpreter import Interpreter

    (source,) = (shared_data / "networks" / "real").glob("*deeplabv3_mnv2*")
    model = import_network(source, tmp_path / "m.safetensors", Pixels((128.0,), (128.0,))).model
    assert isinstance(model, Model)
    assert model.task == Segmentation(tuple(f"class {number}" for number in range(21)))
    litert = Interpreter(str(source))
    litert.allocate_tensors()
    (picture,) = pictures(shared_data, [11])
    image = preprocess(picture, model.input, model.preprocessing)
    litert.set_tensor(litert.get_input_details()[0]["index"], image[np.newaxis])
    litert.invoke()
    wanted = litert.get_tensor(litert.get_output_details()[0]["index"])[0]
    found = reader(model)([each[0] for each in reference.run(model, image[np.newaxis])]).cells
    assert len(np.unique(wanted)) > 1
    assert (found == wanted).mean() > 0.995  # 0.9986; LiteRT rounds otherwise somewhere


def test_pfld_has_the_points_of_onnx_runtime(shared_data: Path, tmp_path: Path) -> None:
    import onnxruntime

    settings = TaskSettings(task="keypoints", outputs=("output",), point_unit="fraction")
    model = imported(shared_data, tmp_path, "pfld_106", settings)
    assert isinstance(model, FloatModel)
    assert isinstance(model.task, Keypoints)
    assert len(model.task.names) == 106
    (source,) = (shared_data / "networks" / "real").glob("*pfld_106*")
    session = onnxruntime.InferenceSession(str(source))
    image = np.random.default_rng(0).random((1, *model.input_shape), dtype=np.float32)
    (wanted,) = session.run(["output"], {session.get_inputs()[0].name: image.transpose(0, 3, 1, 2)})
    np.testing.assert_allclose(outputs(model, image)[0].ravel(), wanted.ravel(), atol=3e-6)
