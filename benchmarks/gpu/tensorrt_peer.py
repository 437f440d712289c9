"""Table 2, TensorRT's rows, if its Python package is installed: the same float network through ONNX."""

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from benchmarks.gpu.effort import Effort
from benchmarks.gpu.onnx_network import onnx_network
from edgemeta.model.graph import FloatModel


def tensorrt_rows(model: FloatModel, batches: Sequence[int], effort: Effort) -> list[dict[str, Any]]:
    """One row per type and batch size, by TensorRT 10 or newer, whose types are those of the file.

    Raises ImportError without TensorRT or onnx, and RuntimeError if it fails.
    """
    import tensorrt

    return [
        {"runtime": f"TensorRT {tensorrt.__version__}", "type": kind, "batch": images, **_times(engine, images, effort)}
        for kind in ("float32", "float16")
        for images in batches
        for engine in [_engine(tensorrt, onnx_network(model, images, kind))]
    ]


def _engine(tensorrt: Any, graph: bytes) -> Any:
    logger = tensorrt.Logger(tensorrt.Logger.WARNING)
    builder = tensorrt.Builder(logger)
    network = builder.create_network(1 << int(tensorrt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = tensorrt.OnnxParser(network, logger)
    if not parser.parse(graph):
        raise RuntimeError(f"TensorRT does not read the network: {parser.get_error(0)}")
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    if plan is None:
        raise RuntimeError("TensorRT builds no engine of the network")
    return tensorrt.Runtime(logger).deserialize_cuda_engine(plan)


def _times(engine: Any, images: int, effort: Effort) -> dict[str, float]:
    context = engine.create_execution_context()
    names = [engine.get_tensor_name(index) for index in (0, 1)]
    dtype = torch.float16 if "HALF" in str(engine.get_tensor_dtype(names[0])) else torch.float32
    source, target = (torch.zeros(tuple(engine.get_tensor_shape(name)), dtype=dtype, device="cuda") for name in names)
    for name, tensor in zip(names, (source, target), strict=True):
        context.set_tensor_address(name, tensor.data_ptr())
    stream = torch.cuda.Stream()
    host: Tensor = torch.zeros(images, 3, 32, 32, dtype=dtype).pin_memory()
    torch.cuda.synchronize()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def device_us() -> float:
        begin.record(stream)
        context.execute_async_v3(stream.cuda_stream)
        end.record(stream)
        end.synchronize()
        return 1000 * float(begin.elapsed_time(end))

    def host_us() -> float:
        started = time.perf_counter_ns()
        with torch.cuda.stream(stream):
            source.copy_(host, non_blocking=True)
            context.execute_async_v3(stream.cuda_stream)
            target.cpu()
        return (time.perf_counter_ns() - started) / 1000

    return {"device_us": effort.median_us(device_us), "host_us": effort.median_us(host_us)}
