"""Models in parts: equal to the reference whatever is refused; one warning or one sentence; nothing left open."""

import logging
import tracemalloc
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import pytest

from edgemeta.model import reference
from edgemeta.model.graph import INPUT
from edgemeta.model.layers import Clamp, Dense, Layer, Lookup, Rescale, TensorType
from edgemeta.model.layers.operator import Operator
from edgemeta.plugins.api import BackendError, OptionError, SessionLostError
from edgemeta.plugins.compile import SplitSession, UnsupportedLayerError, compile_model, refusals_of
from edgemeta.plugins.cpu.backend import CpuSession
from edgemeta.plugins.measure import bench, random_image
from edgemeta.plugins.registry import choose, load
from tests.conformance.cases import CASES, Case
from tests.conformance.networks import NetworkBuilder, assert_equal_outputs
from tests.conformance.random_networks import KINDS, random_network
from tests.parts import by_name, in_parts
from tests.plugins.choosy import ChoosyBackend, without

WITH_OUTPUTS = next(case for case in CASES if len(case.model.outputs) > 1)


@pytest.fixture(scope="module")
def chain() -> Case:
    """conv0 lookup1 conv2 lookup3 clamp4 dense5."""
    net = NetworkBuilder("chain", TensorType((6, 6, 3)))
    looked = net.lookup(net.conv(INPUT, 4), TensorType((1, 1, 1)))
    return net.observe(net.clamp(net.lookup(net.conv(looked, 4), TensorType((1, 1, 1))), -100, 100))


def assert_equal(case: Case, backend: ChoosyBackend) -> None:
    with closing(compile_model(case.model, backend, {})) as session:
        for name, batch in case.batches():
            outputs = reference.run(case.model, batch)
            assert_equal_outputs(session.run(batch), outputs, name)
            assert_equal_outputs(session.run(batch[:1]), [output[:1] for output in outputs], name)
    assert backend.open == 0


@pytest.mark.gate("the whole table, in parts")
@in_parts(by_name(CASES))
def test_the_conformance_table_without_one_kind(case: Case) -> None:
    """Without the kind of the layer before the last, which the last one observes."""
    kind = type(case.model.layers[max(0, len(case.model.layers) - 2)])
    assert_equal(case, without(kind))


@pytest.mark.parametrize("kind", get_args(Layer), ids=lambda kind: kind.__name__)
def test_random_networks_without_each_kind(kind: type[Layer]) -> None:
    """The first networks that have it."""
    cases = (random_network(number) for number in range(10 * len(KINDS)))
    having = [case for case in cases if any(isinstance(layer, kind) for layer in case.model.layers)]
    for case in having[:6]:
        assert_equal(case, without(kind))


@pytest.mark.gate("20 s of processor time: many networks")
@pytest.mark.parametrize("seed", range(4))
def test_random_networks_without_some_layers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for number in range(20 * len(KINDS)):
        case = random_network(number)
        refused = {layer.name for layer in case.model.layers if rng.random() < 0.4}
        assert_equal(case, ChoosyBackend(lambda layer, refused=refused: layer.name in refused))


def test_a_supported_model_is_compiled_as_it_is(chain: Case, caplog: pytest.LogCaptureFixture) -> None:
    backend = ChoosyBackend(lambda layer: False)
    for fallback in ("cpu", "refuse"):
        compile_model(chain.model, backend, {"tiles": "rule"}, fallback).close()
    assert all(model is chain.model for model in backend.models)
    assert backend.options == [{"tiles": "rule"}] * 2
    assert caplog.text == ""


def test_parts_on_cpu_are_logged_once_with_reason(chain: Case, caplog: pytest.LogCaptureFixture) -> None:
    backend = without(Lookup)
    with caplog.at_level(logging.DEBUG, "edgemeta.plugins"):
        compile_model(chain.model, backend, {"number": 1}).close()
    (record,) = [record for record in caplog.records if record.name == "edgemeta.plugins.compile"]
    assert record.levelno == logging.WARNING
    assert record.getMessage() == (
        "model chain: 2 of 6 layers run on cpu (lookup1, lookup3), as backend choosy does not support 2 of them "
        "(layer 'lookup1': Lookup is not supported); changes of backend for every image: 4"
    )
    assert [model.name for model in backend.models] == ["chain conv0", "chain conv2", "chain clamp4..dense5"]


def test_a_warning_names_only_the_first_of_many(caplog: pytest.LogCaptureFixture) -> None:
    net = NetworkBuilder("deep", TensorType((6, 6, 3)))
    last = INPUT
    for _ in range(7):
        last = net.lookup(net.conv(last, 3), TensorType((1, 1, 1)))
    compile_model(net.observe(last).model, without(Lookup), {}).close()
    (record,) = caplog.records
    assert record.getMessage() == (
        "model deep: 7 of 15 layers run on cpu (lookup1, lookup3, lookup5, lookup7, 3 more), as backend choosy does "
        "not support 7 of them (layer 'lookup1': Lookup is not supported); changes of backend for every image: 14"
    )


def test_a_model_with_an_unsupported_layer_is_refused_by_name(chain: Case) -> None:
    backend = without(Lookup, Clamp)
    with pytest.raises(UnsupportedLayerError, match=r"^backend choosy: layer 'lookup1': Lookup is not supported$"):
        compile_model(chain.model, backend, {}, "refuse")
    assert list(refusals_of(chain.model, backend)) == ["lookup1", "lookup3", "clamp4"]
    assert backend.models == []


def test_what_is_opened_is_closed_where_a_later_part_cannot_be_compiled(chain: Case) -> None:
    backend = without(Lookup)
    compiled = backend.compile

    def compile_once(*arguments: object) -> object:
        if backend.models:
            raise OptionError("backend choosy: unknown option")
        return compiled(*arguments)  # type: ignore[arg-type]

    backend.compile = compile_once  # type: ignore[assignment, method-assign]
    with pytest.raises(OptionError, match="unknown option"):
        compile_model(chain.model, backend, {})
    assert len(backend.models) == 1
    assert backend.open == 0


def test_a_closed_session_refuses_to_run(chain: Case) -> None:
    backend = without(Lookup)
    session = compile_model(chain.model, backend, {})
    image = random_image(chain.model)
    outputs = session.run(image)
    kept = outputs[0].copy()
    session.close()
    session.close()
    assert backend.open == 0
    np.testing.assert_array_equal(outputs[0], kept)
    with pytest.raises(BackendError, match="the session is closed"):
        session.run(image)


@pytest.mark.parametrize("error", [BackendError, SessionLostError])
def test_errors_of_a_part_pass_through(chain: Case, error: type[BackendError]) -> None:
    backend = without(Lookup)
    image = random_image(chain.model)
    with closing(compile_model(chain.model, backend, {})) as session:
        expected = session.run(image)[0].copy()
        backend.fails_with = error("backend choosy: it has failed")
        with pytest.raises(error, match=r"^backend choosy: it has failed$"):
            session.run(image)
        backend.fails_with = None
        np.testing.assert_array_equal(session.run(image)[0], expected)


def test_a_wrong_batch_is_refused(chain: Case) -> None:
    with closing(compile_model(chain.model, without(Lookup), {})) as session:
        for wrong in (random_image(chain.model)[0], random_image(chain.model).astype(np.int32)):
            with pytest.raises(BackendError, match="the batch is"):
                session.run(wrong)


class CpuInPart(ChoosyBackend):
    """The C++ library, which refuses some layers: nothing in it allocates."""

    name = "cpu in part"

    def compile(self, model, options):  # type: ignore[no-untyped-def]
        return choose("cpu").compile(model, {"isa": "portable"})


@pytest.mark.parametrize("case", [WITH_OUTPUTS, None], ids=["outputs", "chain"])
def test_after_the_first_call_nothing_is_allocated(case: Case | None, chain: Case) -> None:
    model = (case or chain).model
    refused = {layer.name for layer in model.layers[1::2]}
    backend = CpuInPart(lambda layer: layer.name in refused)
    image = random_image(model).repeat(500, axis=0)  # every tensor is larger than what Python's own objects take
    with closing(compile_model(model, backend, {})) as session:
        assert isinstance(session, SplitSession)
        first = session.run(image)
        assert_equal_outputs(first, reference.run(model, image))
        tracemalloc.start()
        try:
            for _ in range(20):
                session.run(image)
            before, _ = tracemalloc.get_traced_memory()
            for _ in range(100):
                again = session.run(image)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert all(one is other for one, other in zip(first, again, strict=True))
        assert peak - before < image.nbytes / 4
        image[:] = model.input.lo  # in place, as a preprocessor writes it
        assert_equal_outputs(session.run(image), reference.run(model, image))


def test_a_profile_has_the_steps_of_all_parts(chain: Case) -> None:
    image = random_image(chain.model)
    with closing(compile_model(chain.model, without(Lookup), {})) as session:
        assert isinstance(session, SplitSession)
        steps = session.profile(image)
        assert list(steps) == ["conv0", "lookup1", "conv2", "lookup3", "clamp4..dense5"]
        assert all(microseconds >= 0 for microseconds in steps.values())
        assert list(bench(session, chain.model, 3, 0, lambda done, total: None).stages) == list(steps)


@dataclass(frozen=True)
class Unknown(Operator):
    """A layer that only the reference can run: 255 - x of an unsigned tensor."""

    name: str
    input: str
    output: TensorType

    def integers(self, values: Sequence[Any], sources: Sequence[TensorType]) -> Any:
        return 255 - values[0]


@pytest.mark.parametrize("name", ["cpu", "choosy"])
def test_what_the_library_has_no_kernel_for_runs_on_the_reference(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """On `cpu`, and where another backend leaves it to `cpu`."""
    kind = TensorType((1, 1, 1), signed=False)
    net = NetworkBuilder("unknown", TensorType((6, 6, 3)))
    source = net.conv(INPUT, 4, output=kind)
    layer: Any = Unknown("unknown1", source, net.type_of(source))
    case = net.observe(net.conv(net.append(layer), 4, output=kind))
    cpu, choosy = choose("cpu"), ChoosyBackend(lambda layer: isinstance(layer, Unknown | Dense))
    with closing(compile_model(case.model, cpu if name == "cpu" else choosy, {})) as session:
        for batch_name, batch in case.batches():
            assert_equal_outputs(session.run(batch), reference.run(case.model, batch), batch_name)
    assert "layers run on reference (unknown1), as backend cpu does not support 1 of them" in caplog.text
    with pytest.raises(UnsupportedLayerError, match=r"^backend cpu: layer 'unknown1': Unknown is not supported$"):
        compile_model(case.model, cpu, {}, "refuse")
    with pytest.raises(BackendError, match=r"^backend cpu: layer 'unknown1': Unknown is not supported$"):
        cpu.compile(case.model, {})


@dataclass(frozen=True)
class Same(Operator):
    """x itself; the same as a clamp that limits nothing."""

    name: str
    input: str
    output: TensorType

    @property
    def equivalent(self) -> Clamp:
        return Clamp(self.name, self.input, self.output, self.output.lo, self.output.hi)

    def integers(self, values: Sequence[Any], sources: Sequence[TensorType]) -> Any:
        return values[0]


@pytest.mark.parametrize("name", ["cpu", "cuda"])
def test_a_backend_runs_the_equivalent_of_a_layer_that_it_has_no_form_of(name: str) -> None:
    layer: Any = Same("same", INPUT, TensorType((6, 6, 3)))
    assert load(name).supports(layer, [layer.output]) is None
    net = NetworkBuilder("equivalent", layer.output)
    case = net.observe(net.append(layer))
    with closing(compile_model(case.model, choose("cpu"), {}, "refuse")) as session:
        for batch_name, batch in case.batches():
            assert_equal_outputs(session.run(batch), reference.run(case.model, batch), batch_name)


def test_steps_of_one_name_in_several_parts_are_added(chain: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """As CUDA's "host and copies" is."""
    monkeypatch.setattr(CpuSession, "profile", lambda self, image: {"host": 1.5})
    with closing(compile_model(chain.model, without(Lookup, Rescale), {})) as session:
        assert isinstance(session, SplitSession)
        assert session.profile(random_image(chain.model))["host"] == 3.0
