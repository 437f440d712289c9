"""A compiler that compiles each kernel variant once: the layers around a tested one are the same in many networks."""

from dataclasses import dataclass, field

from edgemeta.kernels.cuda.compile.compiler import Compiler
from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.launch_plan import Source


@dataclass(frozen=True)
class CompiledOnce:
    """Keeps the cubins of all variants, tens of kilobytes each."""

    compiler: Compiler
    _cubins: dict[tuple[Source, str], bytes] = field(default_factory=dict)

    def compile(self, source: Source, architecture: Architecture) -> bytes:
        """A cubin of one variant. Raises CompilerError."""
        key = source, architecture.name
        if key not in self._cubins:
            self._cubins[key] = self.compiler.compile(source, architecture)
        return self._cubins[key]
