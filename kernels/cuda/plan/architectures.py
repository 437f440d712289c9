"""The GPU generations that kernels are compiled for."""

from dataclasses import dataclass

_KIB = 1024


@dataclass(frozen=True)
class Architecture:
    """Properties of a GPU generation that kernels depend on.

    name: "sm_53". number: 530, the value of `__CUDA_ARCH__`. dot4: four int8 products in one instruction (dp4a).
    tensor_int8, tensor_int4: matrix instructions of 8 and of 4 bits. shared_bytes, registers: most shared memory and
    32-bit registers of a block. multiprocessors: of the device that the choice by rule assumes. resident_*: limits of a
    multiprocessor for all its resident blocks together. cluster_blocks: most blocks of a cluster; 1 where there are
    none.
    """

    name: str
    number: int
    dot4: bool
    tensor_int8: bool
    shared_bytes: int
    tensor_int4: bool = False
    registers: int = 65_536
    multiprocessors: int = 1
    resident_shared_bytes: int = 64 << 10
    resident_registers: int = 65_536
    resident_warps: int = 64
    resident_blocks: int = 32
    cluster_blocks: int = 1


#: Limits: CUDA C++ programming guide, table of technical specifications per compute capability. Multiprocessors: of
#: Jetson Nano, TX2, a GTX 1080, Jetson AGX Xavier, AGX Orin and an H200. tensor_int4: the tensor
#: cores of Hopper have no 4-bit integers; for sm_90 the compiler calls a function that makes them 8-bit ones.
ARCHITECTURES = {
    each.name: each
    for each in (
        Architecture("sm_53", 530, dot4=False, tensor_int8=False, shared_bytes=48 * _KIB, registers=32_768),
        Architecture("sm_62", 620, False, False, shared_bytes=48 * _KIB, registers=32_768, multiprocessors=2),
        Architecture(
            "sm_61",
            610,
            dot4=True,
            tensor_int8=False,
            shared_bytes=48 * _KIB,
            multiprocessors=20,
            resident_shared_bytes=96 * _KIB,
        ),
        Architecture(
            "sm_72", 720, True, True, shared_bytes=96 * _KIB, multiprocessors=8, resident_shared_bytes=96 * _KIB
        ),
        Architecture(
            "sm_87",
            870,
            dot4=True,
            tensor_int8=True,
            tensor_int4=True,
            shared_bytes=163 * _KIB,
            multiprocessors=16,
            resident_shared_bytes=164 * _KIB,
            resident_warps=48,
            resident_blocks=16,
        ),
        Architecture(
            "sm_90",
            900,
            dot4=True,
            tensor_int8=True,
            shared_bytes=227 * _KIB,
            multiprocessors=132,
            resident_shared_bytes=228 * _KIB,
            cluster_blocks=8,  # CUDA C++ programming guide: portable; 16 need the kernel's permission before a launch
        ),
    )
}
