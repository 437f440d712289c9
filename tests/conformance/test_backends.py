"""The cpu backend, on every instruction set that this machine has, equals the reference on the whole table."""

from contextlib import closing

from edgemeta.kernels.cpu.library import supported_isas
from edgemeta.model import reference
from edgemeta.plugins.registry import choose
from tests.conformance.cases import CASES, Case
from tests.conformance.networks import assert_equal_outputs
from tests.parts import by_name, in_parts

ISAS = supported_isas()


WAYS = [(isa, 1) for isa in ISAS] + [(ISAS[-1], 2)]
"""Instruction sets and threads; the threads share the work alike on each."""


@in_parts(by_name(CASES))
def test_cpu_equals_the_reference(case: Case) -> None:
    expected = [(batch, reference.run(case.model, batch)) for _, batch in case.batches()]
    for isa, threads in WAYS:
        with closing(choose("cpu").compile(case.model, {"isa": isa, "threads": threads})) as session:
            for batch, outputs in expected:
                assert_equal_outputs(session.run(batch), outputs, isa)
                assert_equal_outputs(session.run(batch[:1]), [output[:1] for output in outputs], isa)
