"""Writes a network as a folder: sources, memories, a test bench with expected logits, a README, a Vivado script."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgemeta.kernels.fpga.generate.foldings import predicted
from edgemeta.kernels.fpga.generate.network import FpgaError, Network
from edgemeta.kernels.fpga.generate.verilog import accelerator_source, memory_files, network_source, rtl_sources
from edgemeta.model import reference


@dataclass(frozen=True)
class Target:
    """A device, AMD's by its Vivado part: LUTs of 6 or 4 inputs, blocks of 36 Kbit; is_serial: by a serial line."""

    part: str
    lut: int
    bram36: int
    is_serial: bool = False


TARGETS: Mapping[str, Target] = {
    "xc7z010": Target("xc7z010clg400-1", 17_600, 60),
    "xc7z020": Target("xc7z020clg400-1", 53_200, 140),
    "xc7z045": Target("xc7z045ffg900-2", 218_600, 545),
    "xc7a35t": Target("xc7a35tcsg324-1", 20_800, 50),
    "xc7a100t": Target("xc7a100tcsg324-1", 63_400, 135),
}
"""By name; numbers of LUTs and block RAMs from AMD's DS190 and DS180."""

_IMAGES = 3
_PATIENCE = 20
"""Intervals from image to image that the test bench waits for a logit."""


def write_build(network: Network, target: Target, folder: Path) -> None:
    """Write everything into `folder`.

    Raises FpgaError if the predicted logic exceeds the target, if the folder holds other files, or the disk fails.
    """
    lut, bram36 = predicted(network, is_serial=target.is_serial)
    if lut > target.lut or bram36 > target.bram36:
        raise FpgaError(
            f"the network needs about {lut} LUTs and {bram36:g} block RAMs, {target.part} has {target.lut} and "
            f"{target.bram36}: allow more cycles, or choose another target"
        )
    try:
        _make_folder(folder)
        for name, text in memory_files(network).items():
            (folder / "memories" / name).write_text(text, "ascii")
        for name, text in _sources(network, target, lut, bram36).items():
            (folder / name).write_text(text, "utf-8")
    except OSError as error:
        raise FpgaError(f"{folder}: {error.strerror}") from error


def _make_folder(folder: Path) -> None:
    """A new folder, or that of an earlier netlist without its memories, whose names depend on the network."""
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "accelerator.sv").is_file():
        raise FpgaError(f"{folder}: holds other files, expected a new folder or that of an earlier netlist")
    memories = folder / "memories"
    memories.mkdir(parents=True, exist_ok=True)
    for file in memories.glob("*.mem"):
        file.unlink()


def _sources(network: Network, target: Target, lut: int, bram36: float) -> dict[str, str]:
    images, logits = _vectors(network)
    bits = network.engines[-1].out_bits
    mask = (1 << bits) - 1
    bench = {
        "IMAGES": _IMAGES,
        "IMAGE": images.size // _IMAGES,
        "LOGITS": logits.size // _IMAGES,
        "BITS": bits,
        "PATIENCE": _PATIENCE * network.interval,
    }
    return {
        **rtl_sources(),
        "network.sv": network_source(network),
        "accelerator.sv": accelerator_source(network),
        "images.mem": "".join(f"{word:02x}\n" for word in images.view(np.uint8).ravel().tolist()),
        "logits.mem": "".join(f"{word & mask:08x}\n" for word in logits.astype(np.int64).ravel().tolist()),
        "testbench.sv": _TEST_BENCH.format(**bench),
        **({"vivado.tcl": _VIVADO.format(PART=target.part)} if target.part.startswith("xc") else {}),
        "README.md": _README.format(
            NAME=network.model.name,
            DIGEST=network.model.digest or "none",
            CYCLES=network.interval,
            LUT=lut,
            BRAM=f"{bram36:g}",
            PART=target.part,
        ),
    }


def _vectors(network: Network) -> "tuple[np.ndarray, np.ndarray]":
    """Random images, the lowest and the highest one, and the reference's logits."""
    kind = network.model.input
    rng = np.random.default_rng(0)
    images = rng.integers(kind.lo, kind.hi + 1, (_IMAGES, *kind.shape)).astype(kind.dtype)
    images[1], images[2] = kind.lo, kind.hi
    return images, reference.run(network.model, images)[0]


_TEST_BENCH = """\
// Streams {IMAGES} images through the accelerator and compares every logit with the reference's. Ends with an error if
// one differs, or if none comes for {PATIENCE} clocks. Generated.
`timescale 1ns / 1ps
module testbench;
    localparam IMAGES = {IMAGES}, IMAGE = {IMAGE}, LOGITS = {LOGITS}, BITS = {BITS}, PATIENCE = {PATIENCE};
    reg aclk = 1'b0, aresetn = 1'b0;
    always #5 aclk = !aclk;
    reg [7:0] images [0:IMAGES*IMAGE-1];
    reg [31:0] logits [0:IMAGES*LOGITS-1];
    initial begin
        $readmemh("images.mem", images);
        $readmemh("logits.mem", logits);
        #100 aresetn = 1'b1;
    end
    integer given = 0, taken = 0, wrong = 0, cycles = 0, waited = 0;
    wire ready, valid;
    wire [BITS-1:0] data;
    edgemeta_accelerator accelerator (
        .aclk(aclk), .aresetn(aresetn), .s_axis_tdata(images[given]), .s_axis_tlast(given % IMAGE == IMAGE - 1),
        .s_axis_tvalid(aresetn && given < IMAGES*IMAGE), .s_axis_tready(ready),
        .m_axis_tdata(data), .m_axis_tvalid(valid), .m_axis_tready(1'b1), .m_axis_tlast(),
        .s_axil_awaddr(7'd0), .s_axil_awvalid(1'b0), .s_axil_awready(), .s_axil_wdata(32'd0), .s_axil_wvalid(1'b0),
        .s_axil_wready(), .s_axil_bresp(), .s_axil_bvalid(), .s_axil_bready(1'b1), .s_axil_araddr(7'd0),
        .s_axil_arvalid(1'b0), .s_axil_arready(), .s_axil_rdata(), .s_axil_rresp(), .s_axil_rvalid(),
        .s_axil_rready(1'b1), .interrupt());
    always @(posedge aclk) if (aresetn) begin
        cycles = cycles + 1;
        waited = valid ? 0 : waited + 1;
        if (waited == PATIENCE) $fatal(1, "no logit for %0d clocks, %0d of %0d came", waited, taken, IMAGES * LOGITS);
        if (ready && given < IMAGES*IMAGE) given <= given + 1;
        if (valid) begin
            if (data !== logits[taken][BITS-1:0]) wrong = wrong + 1;
            taken = taken + 1;
            if (taken % LOGITS == 0)
                $display("image %0d of %0d: %0d logits, %0d wrong, %0d clocks", taken / LOGITS, IMAGES, taken, wrong,
                    cycles);
            if (taken == IMAGES * LOGITS) begin
                if (wrong != 0) $fatal(1, "%0d of %0d logits are wrong", wrong, taken);
                $finish;
            end
        end
    end
endmodule
"""

_VIVADO = """\
# vivado -mode batch -source vivado.tcl: synthesis out of context, with its own counts and timing. Generated.
create_project -in_memory -part {PART}
read_verilog -sv [lsearch -inline -all -not [glob *.sv] testbench.sv]
read_mem [glob memories/*.mem]
synth_design -top edgemeta_accelerator -part {PART} -mode out_of_context
create_clock -period 10 [get_ports aclk]
report_utilization -hierarchical -file utilization.txt
report_timing_summary -file timing.txt
write_checkpoint -force accelerator.dcp
"""

_README = """\
# {NAME} as a netlist

Model file SHA-256: `{DIGEST}`. The slowest engine needs {CYCLES} clocks per image. Predicted for {PART}: {LUT} LUTs,
{BRAM} block RAMs of 36 Kbit, no DSP blocks. What a build for a board was placed and routed to is in `build.json`.

- `accelerator.sv`: the top module: AXI4-Stream in (one byte per clock, H, W, C order) and out, AXI4-Lite registers
- `network.sv`: the engines of this network and the streams between them; the other `.sv` files are the engines
- `memories/`: weights as codes, start values, tables, one word per line
- `testbench.sv`: streams the images of `images.mem` and compares the logits with `logits.mem`. With Verilator 5:
  `verilator --binary -O3 -Wno-fatal --top-module testbench *.sv && obj_dir/Vtestbench`; with Icarus, which takes
  minutes for each image of a network like ResNet-8: `iverilog -g2012 -s testbench -o bench *.sv && vvp bench`
- `vivado.tcl`, for devices of AMD: synthesis with Vivado: `vivado -mode batch -source vivado.tcl`
- `board_top.v`, `board.lpf`, for boards: PLL and serial port around the network, pins; `edgemeta.bit`: the bitstream
"""
