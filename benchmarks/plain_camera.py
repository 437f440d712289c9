"""What a plain program does with a camera: OpenCV decodes, ONNX Runtime runs, paho publishes. whole_frames.py runs it.

    python benchmarks/plain_camera.py ADDRESS NETWORK.onnx PORT classify|detect

One thread. A message at QoS 1 for each picture: the scores of all labels, or the objects of a YOLOX.
"""

import json
import os
import sys
from typing import Any

os.environ["OPENCV_FFMPEG_CAPTURE_OPTIONS"] = "threads;1"
import cv2
import numpy as np
import onnxruntime
import paho.mqtt.client as paho
from numpy.typing import NDArray


def scores(logits: NDArray[Any]) -> list[float]:
    """The softmax of logits [1, labels]."""
    powers = np.exp(logits[0] - logits.max())
    return [round(float(score), 4) for score in powers / powers.sum()]


def objects(rows: NDArray[Any], side: int, scale: float) -> list[list[float]]:
    """The boxes (left, top, width, height), scores and classes of a YOLOX output [1, N, 85], after suppression."""
    grids = [np.stack(np.meshgrid(np.arange(side // s), np.arange(side // s)), -1).reshape(-1, 2) for s in (8, 16, 32)]
    steps = np.concatenate([np.full((len(grid), 1), s) for grid, s in zip(grids, (8, 16, 32), strict=True)])
    best = rows[0, :, 4:5] * rows[0, :, 5:]
    kept = best.max(1) > 0.3
    middle = ((rows[0, :, :2] + np.concatenate(grids)) * steps)[kept] * scale
    size = (np.exp(rows[0, :, 2:4]) * steps)[kept] * scale
    boxes, classes, found = np.hstack([middle - size / 2, size]), best[kept].argmax(1), best[kept].max(1)
    left = cv2.dnn.NMSBoxesBatched(boxes.tolist(), found.tolist(), classes.tolist(), 0.3, 0.45)
    return [[*map(float, boxes[i]), float(found[i]), float(classes[i])] for i in left]


def main(address: str, network: str, port: int, task: str) -> None:
    """Publish what each picture shows until the stream ends."""
    cv2.setNumThreads(1)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(network, options, providers=["CPUExecutionProvider"])
    source = session.get_inputs()[0]
    side, kind = source.shape[2], np.uint8 if "uint8" in source.type else np.float32
    padded = np.full((side, side, 3), 114, np.uint8)
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    client.connect("127.0.0.1", port)
    client.loop_start()
    capture = cv2.VideoCapture(address, cv2.CAP_FFMPEG)
    while (read := capture.read())[0]:
        if task == "classify":
            small = cv2.cvtColor(cv2.resize(read[1], (side, side), interpolation=cv2.INTER_AREA), cv2.COLOR_BGR2RGB)
        else:
            scale = max(read[1].shape) / side
            width, height = (round(length / scale) for length in read[1].shape[1::-1])
            small = padded
            small[:height, :width] = cv2.resize(read[1], (width, height), interpolation=cv2.INTER_LINEAR)
        rows = session.run(None, {source.name: np.ascontiguousarray(small.transpose(2, 0, 1)[None], kind)})[0]
        found = scores(rows) if task == "classify" else objects(rows, side, scale)
        client.publish("edgemeta/plain/camera/frame", json.dumps({"found": found}), qos=1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
