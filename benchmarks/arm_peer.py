"""Runs a network some times in another runtime: LiteRT or ONNX Runtime. For the emulated Python of arm_instructions.py.

python arm_peer.py litert|onnxruntime FILE RUNS
"""

import sys
from collections.abc import Callable

import numpy as np


def litert(file: str) -> Callable[[], object]:
    """One run on random int8 integers, one thread."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(file, num_threads=1)
    interpreter.allocate_tensors()
    source = interpreter.get_input_details()[0]
    image = np.random.default_rng(0).integers(-128, 128, source["shape"]).astype(source["dtype"])
    interpreter.set_tensor(source["index"], image)
    return lambda: interpreter.invoke()


def onnx_runtime(file: str) -> Callable[[], object]:
    """One run on random uint8 integers, or pixels where floats are wanted, one thread, all graph optimizations."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    source = session.get_inputs()[0]
    kind = np.float32 if source.type == "tensor(float)" else np.uint8
    image = np.random.default_rng(0).integers(0, 256, source.shape).astype(kind)
    binding = session.io_binding()
    binding.bind_cpu_input(source.name, image)
    binding.bind_output(session.get_outputs()[0].name)
    return lambda: session.run_with_iobinding(binding)


if __name__ == "__main__":
    run = {"litert": litert, "onnxruntime": onnx_runtime}[sys.argv[1]](sys.argv[2])
    for _ in range(int(sys.argv[3])):
        run()
