"""The cocotb side of test_engines.py: runs in the simulator's process, on any module with the ports of a network.

EDGEMETA_BENCH names an .npz with `words`, the input bytes of all images, `expected`, the output words, and `image`,
input words per image.
"""

import os
import random

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge

BENCH = np.load(os.environ["EDGEMETA_BENCH"]) if "EDGEMETA_BENCH" in os.environ else None


async def start(dut):
    dut.in_valid.value = dut.out_ready.value = dut.load_valid.value = 0
    dut.in_data.value = dut.load_memory.value = dut.load_row.value = dut.load_word.value = 0
    cocotb.start_soon(Clock(dut.clk, 2, "step").start())
    await reset(dut)


async def reset(dut):
    dut.rst.value = 1
    for _ in range(3):
        await FallingEdge(dut.clk)
    dut.rst.value = 0
    await FallingEdge(dut.clk)


async def offer(dut, words, pause, rng):
    """Offer words; a word that is offered stays until it is taken."""
    for word in words:
        while rng.random() < pause:
            await FallingEdge(dut.clk)
        dut.in_data.value = int(word)
        dut.in_valid.value = 1
        while True:
            await RisingEdge(dut.clk)  # values before the edge
            taken = int(dut.in_ready.value)
            await FallingEdge(dut.clk)
            if taken:
                break
        dut.in_valid.value = 0


async def take(dut, count, pause, rng, mask):
    """Take words; what is offered must not change before it is taken."""
    found, held = [], None
    while len(found) < count:
        ready = rng.random() >= pause
        dut.out_ready.value = int(ready)
        await RisingEdge(dut.clk)
        if int(dut.out_valid.value):
            word = int(dut.out_data.value) & mask
            assert held is None or word == held, "the output changed while it was not taken"
            held = None if ready else word
            if ready:
                found.append(word)
        else:
            assert held is None, "the offer was withdrawn"
        await FallingEdge(dut.clk)
    dut.out_ready.value = 0
    return found


async def run(dut, pause_in, pause_out, seed=1):
    mask = (1 << len(dut.out_data)) - 1
    expected = [int(value) & mask for value in BENCH["expected"]]
    cocotb.start_soon(offer(dut, BENCH["words"], pause_in, random.Random(seed)))
    found = await take(dut, len(expected), pause_out, random.Random(seed + 1), mask)
    assert found == expected


@cocotb.test(timeout_time=3_000_000, timeout_unit="step")
async def full_speed(dut):
    await start(dut)
    await run(dut, 0, 0)


@cocotb.test(timeout_time=3_000_000, timeout_unit="step")
async def slow_writer_and_slow_reader(dut):
    await start(dut)
    await run(dut, 0.6, 0)
    await run(dut, 0, 0.7)
    await run(dut, 0.4, 0.4)


@cocotb.test(timeout_time=3_000_000, timeout_unit="step")
async def a_reset_in_mid_frame_forgets_the_frame(dut):
    await start(dut)
    rng = random.Random(3)
    image = int(BENCH["image"])
    for part in (image // 3, image - 1, 1):
        writer = cocotb.start_soon(offer(dut, BENCH["words"][:part], 0.1, rng))
        for _ in range(part + 20):
            await FallingEdge(dut.clk)
        writer.cancel()
        dut.in_valid.value = 0
        await reset(dut)
        assert int(dut.out_valid.value) == 0
    await run(dut, 0.1, 0.1)
