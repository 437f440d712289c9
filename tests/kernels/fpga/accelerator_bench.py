"""The cocotb side of test_accelerator.py: AXI4-Stream and AXI4-Lite ports of an accelerator, with random pauses.

EDGEMETA_BENCH names an .npz with `words`, the input bytes of all images, `expected`, the output words, and `image` and
`result`, words per image of both.
"""

import os
import random

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge

BENCH = np.load(os.environ["EDGEMETA_BENCH"]) if "EDGEMETA_BENCH" in os.environ else None
CONTROL, ERRORS, IMAGES_READ, IMAGES_WRITTEN, INTERRUPT, DIGEST = 0x08, 0x0C, 0x10, 0x14, 0x28, 0x40
EARLY, MISSING = 1, 2


async def start(dut):
    for name in ("awvalid", "wvalid", "bready", "arvalid", "rready", "awaddr", "wdata", "araddr"):
        getattr(dut, f"s_axil_{name}").value = 0
    dut.s_axis_tvalid.value = dut.s_axis_tlast.value = dut.s_axis_tdata.value = dut.m_axis_tready.value = 0
    cocotb.start_soon(Clock(dut.aclk, 2, "step").start())
    dut.aresetn.value = 0
    for _ in range(3):
        await FallingEdge(dut.aclk)
    dut.aresetn.value = 1


async def handshake(dut, valid, ready, rng):
    """Raise `valid` after a random pause, and hold it until `ready`."""
    while rng.random() < 0.5:
        await FallingEdge(dut.aclk)
    valid.value = 1
    while True:
        await RisingEdge(dut.aclk)
        taken = int(ready.value)
        await FallingEdge(dut.aclk)
        if taken:
            break
    valid.value = 0


async def response(dut, valid, ready, rng, data=None):
    """Wait for `valid`, let it wait at random; it and the data must stay. Returns the data."""
    while not int(valid.value):
        await FallingEdge(dut.aclk)
    found = None if data is None else int(data.value)
    while rng.random() < 0.5:
        await FallingEdge(dut.aclk)
        assert int(valid.value), "the response was withdrawn"
        assert data is None or int(data.value) == found, "the data changed before it was taken"
    ready.value = 1
    await FallingEdge(dut.aclk)
    ready.value = 0
    assert not int(valid.value), "the response stays after it was taken"
    return found


async def write(dut, address, value, rng):
    """Address and data arrive in either order."""
    dut.s_axil_awaddr.value, dut.s_axil_wdata.value = address, value
    parts = [
        cocotb.start_soon(handshake(dut, dut.s_axil_awvalid, dut.s_axil_awready, rng)),
        cocotb.start_soon(handshake(dut, dut.s_axil_wvalid, dut.s_axil_wready, rng)),
    ]
    for part in parts:
        await part
    await response(dut, dut.s_axil_bvalid, dut.s_axil_bready, rng)


async def read(dut, address, rng):
    dut.s_axil_araddr.value = address
    await handshake(dut, dut.s_axil_arvalid, dut.s_axil_arready, rng)
    return await response(dut, dut.s_axil_rvalid, dut.s_axil_rready, rng, dut.s_axil_rdata)


async def offer(dut, words, rng, last_at):
    """Offer words with tlast at those positions of an image; a word that is offered stays until it is taken."""
    image = int(BENCH["image"])
    for number, word in enumerate(words):
        while rng.random() < 0.3:
            await FallingEdge(dut.aclk)
        dut.s_axis_tdata.value = int(word)
        dut.s_axis_tlast.value = int(number % image in last_at)
        dut.s_axis_tvalid.value = 1
        while True:
            await RisingEdge(dut.aclk)
            taken = int(dut.s_axis_tready.value)
            await FallingEdge(dut.aclk)
            if taken:
                break
        dut.s_axis_tvalid.value = 0


async def take(dut, count, rng):
    """Take words; returns them and the positions of tlast."""
    mask = (1 << len(dut.m_axis_tdata)) - 1
    found, lasts = [], []
    while len(found) < count:
        ready = rng.random() >= 0.3
        dut.m_axis_tready.value = int(ready)
        await RisingEdge(dut.aclk)
        if ready and int(dut.m_axis_tvalid.value):
            if int(dut.m_axis_tlast.value):
                lasts.append(len(found))
            found.append(int(dut.m_axis_tdata.value) & mask)
        await FallingEdge(dut.aclk)
    dut.m_axis_tready.value = 0
    return found, lasts


async def run(dut, rng, last_at=None):
    """All images; the words and tlast of every one are checked."""
    words, expected = BENCH["words"], BENCH["expected"]
    image, result = int(BENCH["image"]), int(BENCH["result"])
    mask = (1 << len(dut.m_axis_tdata)) - 1
    cocotb.start_soon(offer(dut, words, rng, {image - 1} if last_at is None else last_at))
    found, lasts = await take(dut, len(expected), rng)
    assert found == [int(value) & mask for value in expected]
    assert lasts == [at for at in range(len(expected)) if at % result == result - 1]


@cocotb.test(timeout_time=400_000, timeout_unit="step")
async def registers_answer_while_images_stream(dut):
    await start(dut)
    rng = random.Random(1)
    images = len(BENCH["words"]) // int(BENCH["image"])
    stream = cocotb.start_soon(run(dut, random.Random(2)))
    assert await read(dut, 0x00, rng) == 0x4D474445
    assert await read(dut, 0x20, rng) == int(BENCH["image"])
    assert await read(dut, 0x24, rng) == int(BENCH["result"])
    for part in range(8):
        await write(dut, DIGEST + 4 * part, 0x01020304 * (part + 1), rng)
    await write(dut, INTERRUPT, 0x100, rng)
    for part in range(8):
        assert await read(dut, DIGEST + 4 * part, rng) == 0x01020304 * (part + 1)
    await stream
    await FallingEdge(dut.aclk)
    assert int(dut.interrupt.value) == 1
    assert [await read(dut, at, rng) for at in (IMAGES_READ, IMAGES_WRITTEN, ERRORS)] == [images, images, 0]
    await write(dut, INTERRUPT, 0x101, rng)
    assert int(dut.interrupt.value) == 0
    low, high = await read(dut, 0x18, rng), await read(dut, 0x1C, rng)
    assert high == 0
    assert await read(dut, 0x18, rng) > low


@cocotb.test(timeout_time=400_000, timeout_unit="step")
async def tlast_at_the_wrong_word_is_an_error(dut):
    await start(dut)
    rng, image = random.Random(3), int(BENCH["image"])
    await run(dut, rng, {image // 2, image - 1})
    assert await read(dut, ERRORS, rng) == EARLY
    await write(dut, ERRORS, EARLY, rng)
    assert await read(dut, ERRORS, rng) == 0
    await run(dut, rng, set())
    assert await read(dut, ERRORS, rng) == MISSING


@cocotb.test(timeout_time=400_000, timeout_unit="step")
async def a_reset_by_register_in_mid_frame_forgets_the_frame(dut):
    await start(dut)
    rng = random.Random(4)
    image = int(BENCH["image"])
    for part in (image // 3, image - 1, 1):
        writer = cocotb.start_soon(offer(dut, BENCH["words"][:part], rng, {image - 1}))
        await writer
        await write(dut, CONTROL, 1, rng)
        for _ in range(9):
            await FallingEdge(dut.aclk)
        assert int(dut.m_axis_tvalid.value) == 0
    await run(dut, rng)
    assert await read(dut, ERRORS, rng) == 0
