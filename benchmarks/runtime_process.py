"""One runtime with one network in a process of its own, driven by its standard input; networks.py starts it.

    python -m benchmarks.runtime_process RUNTIME FILE THREADS CORES

RUNTIME: edgemeta or edgemeta-ISA (FILE is a model), onnxruntime, openvino (an ONNX file), litert (a TFLite file), ncnn
or executorch (files of peer_files.py). CORES: the processors that it may use, separated by commas. Each line of input
is `CALLS PAUSE`: so many calls with PAUSE seconds of sleep before each; the answer is one line, the microseconds of
each call as JSON. An image of random integers is copied in by the runtime's usual call, and the outputs are read.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from edgemeta.plugins.measure import random_image

WARM_UP_RUNS = 20
Call = Callable[[], object]


def main() -> None:
    """Answer until the input ends."""
    runtime, file, threads, cores = sys.argv[1:]
    os.sched_setaffinity(0, [int(core) for core in cores.split(",")])
    call = opened(runtime, Path(file), int(threads))
    for _ in range(WARM_UP_RUNS):
        call()
    print("ready", flush=True)
    for line in sys.stdin:
        calls, pause = line.split()
        print(json.dumps(timed(call, int(calls), float(pause))), flush=True)


def opened(runtime: str, file: Path, threads: int) -> Call:
    """The call of a runtime that has loaded its file."""
    kind, _, isa = runtime.partition("-")
    return ours(file, threads, isa) if isa else RUNTIMES[kind](file, threads)


def timed(call: Call, calls: int, pause: float) -> list[float]:
    """Microseconds of each call, with `pause` seconds of sleep before it."""
    times = []
    for _ in range(calls):
        if pause > 0:
            time.sleep(pause)
        begin = time.perf_counter_ns()
        call()
        times.append((time.perf_counter_ns() - begin) / 1000)
    return times


def ours(file: Path, threads: int, isa: str = "auto") -> Call:
    """Our cpu backend."""
    from edgemeta.model.file import load
    from edgemeta.plugins.registry import choose

    model = load(file)
    session, image = choose("cpu").compile(model, {"threads": threads, "isa": isa}), random_image(model)
    return lambda: session.run(image)


def onnx_runtime(file: Path, threads: int) -> Call:
    """ONNX Runtime, all graph optimizations."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    source = session.get_inputs()[0]
    feed = {source.name: _random_pixels(source.shape)}
    return lambda: session.run(None, feed)


def openvino(file: Path, threads: int) -> Call:
    """OpenVINO, latency mode."""
    from openvino import Core, Tensor

    core = Core()
    settings = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
    request = core.compile_model(core.read_model(file), "CPU", settings).create_infer_request()
    shape = [int(side) for side in request.get_input_tensor().shape]
    request.set_input_tensor(Tensor(_random_pixels(shape)))
    return request.infer  # type: ignore[no-any-return]


def litert(file: Path, threads: int) -> Call:
    """LiteRT (TensorFlow Lite with XNNPACK)."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(file), num_threads=threads)
    interpreter.allocate_tensors()
    source, targets = interpreter.get_input_details()[0], interpreter.get_output_details()
    image = np.random.default_rng(0).integers(-128, 128, source["shape"]).astype(source["dtype"])

    def run() -> list[Any]:
        interpreter.set_tensor(source["index"], image)
        interpreter.invoke()
        return [interpreter.get_tensor(target["index"]) for target in targets]

    return run


def ncnn(file: Path, threads: int) -> Call:
    """ncnn, as its options are by default."""
    import ncnn

    net = ncnn.Net()
    net.opt.num_threads = threads
    net.load_param(str(file))
    net.load_model(str(file.with_suffix(".bin")))
    side = json.loads(file.with_suffix(".json").read_text())
    image = ncnn.Mat(_random_pixels(side)).clone()

    def run() -> list[Any]:
        extractor = net.create_extractor()
        extractor.input(net.input_names()[0], image)
        return [np.array(extractor.extract(name)[1]) for name in net.output_names()]

    return run


def executorch(file: Path, _threads: int) -> Call:
    """ExecuTorch with XNNPACK; it takes as many threads as the process may use processors."""
    import torch
    from executorch.runtime import Runtime

    method = Runtime.get().load_program(file).load_method("forward")
    shape = list(method.metadata.input_tensor_meta(0).sizes())
    image = (torch.from_numpy(_random_pixels(shape)),)
    return lambda: method.execute(image)


def _random_pixels(shape: list[Any]) -> Any:
    """Float32 pixels 0 .. 255; a size that the file leaves open is 1."""
    sides = [side if isinstance(side, int) else 1 for side in shape]
    return np.random.default_rng(0).uniform(0, 255, sides).astype(np.float32)


RUNTIMES: dict[str, Callable[[Path, int], Call]] = {
    "edgemeta": ours,
    "onnxruntime": onnx_runtime,
    "openvino": openvino,
    "litert": litert,
    "ncnn": ncnn,
    "executorch": executorch,
}

if __name__ == "__main__":
    main()
