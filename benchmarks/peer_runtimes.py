"""Each runtime behind one face, as `edgemeta doctor` has those that a board may have."""

from typing import Any

from numpy.typing import NDArray

from edgemeta.cli.doctor.runtimes import Runtime, codes_of, fill
from edgemeta.model.graph import Model
from edgemeta.plugins.registry import choose


def edgemeta(model: Model, isa: str) -> Runtime:
    """Our own cpu backend."""
    session = choose("cpu").compile(model, {"isa": isa})
    name = f"edgemeta {session.isa}"  # type: ignore[attr-defined]
    return Runtime(name, "ours", lambda image: session.run(image)[0])


def openvino(graph: bytes, model: Model) -> Runtime:
    """OpenVINO, latency mode."""
    from openvino import Core, Tensor

    core = Core()
    settings = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
    request = core.compile_model(core.read_model(graph), "CPU", settings).create_infer_request()
    codes = codes_of(model)
    request.set_input_tensor(Tensor(codes, shared_memory=True))
    logits = request.get_output_tensor().data

    def run(image: NDArray[Any]) -> NDArray[Any]:
        fill(codes, image, model)
        request.infer()
        return logits  # type: ignore[no-any-return]

    return Runtime("OpenVINO int8", "ours", run)
