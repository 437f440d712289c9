"""Table 2, PyTorch's rows: the same float network, eager and compiled, float32 and float16, as a CUDA graph or not.

`device_us` is what one inference takes between two events of the device; `host_us` goes from page-locked host memory to
logits there, by the host's clock.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from benchmarks.gpu.effort import Effort
from benchmarks.gpu.torch_network import torch_resnet8
from edgemeta.model.graph import FloatModel

Forward = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Way:
    """One way to run the network."""

    name: str
    dtype: torch.dtype
    channels_last: bool = False
    run: Literal["eager", "graph", "compiled"] = "eager"


WAYS = (
    Way("PyTorch eager", torch.float32),
    Way("PyTorch eager", torch.float16),
    Way("PyTorch eager, channels last", torch.float16, channels_last=True),
    Way("PyTorch CUDA graph", torch.float32, run="graph"),
    Way("PyTorch CUDA graph, channels last", torch.float16, channels_last=True, run="graph"),
    Way("torch.compile", torch.float32, run="compiled"),
    Way("torch.compile", torch.float16, run="compiled"),
)


def torch_rows(model: FloatModel, batches: Sequence[int], effort: Effort) -> list[dict[str, Any]]:
    """One row per variant and batch size; a variant that fails has a row with the reason.

    Raises RuntimeError where PyTorch has no GPU.
    """
    torch.cuda.init()
    torch.backends.cudnn.benchmark = True
    rows = []
    for way in WAYS:
        for images in batches:
            kind = str(way.dtype).removeprefix("torch.")
            rows.append({"runtime": way.name, "type": kind, "batch": images, **_row(model, way, images, effort)})
            torch.compiler.reset()
    return rows


def _row(model: FloatModel, way: Way, images: int, effort: Effort) -> dict[str, Any]:
    torch.manual_seed(0)
    host = torch.randn(images, 3, 32, 32).to(way.dtype).pin_memory()
    try:
        with torch.inference_mode():
            return _times(_forward(model, way, host.to("cuda")), host, effort)
    except Exception as error:  # noqa: BLE001 - a peer's fault is a row of the table
        return {"failed": f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"}


def _forward(model: FloatModel, way: Way, example: Tensor) -> Forward:
    network: nn.Module = torch_resnet8(model).to("cuda", way.dtype)
    forward: Forward = network
    if way.run == "compiled":
        forward = torch.compile(network, mode="reduce-overhead", dynamic=False)
    if way.channels_last:
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # a hint that Module.to lacks
        forward = _channels_last(network)
    return _graph(forward, example) if way.run == "graph" else forward


def _channels_last(network: nn.Module) -> Forward:
    def forward(x: Tensor) -> Tensor:
        logits: Tensor = network(x.contiguous(memory_format=torch.channels_last))
        return logits

    return forward


def _graph(network: Forward, example: Tensor) -> Forward:
    """Capture one inference; each call copies its input to the captured input and replays."""
    source = example.clone()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            network(source)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        target = network(source)

    def replay(x: Tensor) -> Tensor:
        source.copy_(x, non_blocking=True)
        graph.replay()
        return target

    return replay


def _times(forward: Forward, host: Tensor, effort: Effort) -> dict[str, float]:
    on_device = host.to("cuda")
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def device_us() -> float:
        begin.record()
        forward(on_device)
        end.record()
        end.synchronize()
        return 1000 * float(begin.elapsed_time(end))

    def host_us() -> float:
        started = time.perf_counter_ns()
        forward(host.to("cuda", non_blocking=True)).cpu()
        return (time.perf_counter_ns() - started) / 1000

    return {"device_us": effort.median_us(device_us), "host_us": effort.median_us(host_us)}
