"""Table 2, TensorRT's rows, if its Python package is installed: the same float network through ONNX."""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.gpu.effort import Effort
from benchmarks.gpu.torch_network import torch_resnet8
from edgemeta.model.graph import FloatModel


def tensorrt_rows(model: FloatModel, batches: Sequence[int], effort: Effort) -> list[dict[str, Any]]:
    """One row per type and batch size. Raises ImportError without TensorRT and RuntimeError if it fails."""
    import tensorrt

    return [
        {"runtime": f"TensorRT {tensorrt.__version__}", "type": kind, "batch": images, **_times(engine, images, effort)}
        for kind in ("float32", "float16")
        for images in batches
        for engine in [_engine(tensorrt, model, images, half=kind == "float16")]
    ]


def _engine(tensorrt: Any, model: FloatModel, images: int, half: bool) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "network.onnx"
        torch.onnx.export(torch_resnet8(model), (torch.zeros(images, 3, 32, 32),), str(file))
        graph = file.read_bytes()
    logger = tensorrt.Logger(tensorrt.Logger.WARNING)
    builder = tensorrt.Builder(logger)
    network = builder.create_network(1 << int(tensorrt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    parser = tensorrt.OnnxParser(network, logger)
    if not parser.parse(graph):
        raise RuntimeError(f"TensorRT does not read the network: {parser.get_error(0)}")
    config = builder.create_builder_config()
    if half:
        config.set_flag(tensorrt.BuilderFlag.FP16)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise RuntimeError("TensorRT builds no engine of the network")
    return tensorrt.Runtime(logger).deserialize_cuda_engine(plan)


def _times(engine: Any, images: int, effort: Effort) -> dict[str, float]:
    context = engine.create_execution_context()
    source, target = (torch.zeros(tuple(engine.get_tensor_shape(engine[i])), device="cuda") for i in (0, 1))
    context.set_tensor_address(engine[0], source.data_ptr())
    context.set_tensor_address(engine[1], target.data_ptr())
    stream = torch.cuda.Stream()
    host: Tensor = torch.zeros(images, 3, 32, 32).pin_memory()
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
