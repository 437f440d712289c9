"""Boards with an ECP5: device, pins, and the top module with PLL, reset and serial port that a bitstream is made of."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from edgemeta.kernels.fpga.generate.build import Target
from edgemeta.kernels.fpga.generate.network import FpgaError, Network

DEFAULT_BAUD = 3_000_000
"""Of the serial port: what an FT231X reaches."""

DEFAULT_MHZ = 60.0
"""Clock of a network on a board."""

_LEAST_DIVIDER, _WRONG_BAUD = 4, 0.02
"""Clocks per bit of rtl/uart.sv, and how far a rate may be off: ten bits without a slip."""

_VCO = (400.0, 800.0)
"""MHz that the PLL's oscillator must lie between (Lattice FPGA-DS-02012)."""


@dataclass(frozen=True)
class Board:
    """A board. target: its device; size, package, speed: nextpnr's options for that; mhz: of its oscillator.

    rx, tx: pins of the serial port; the FPGA drives tx. cycles: clocks per image without another wish.
    """

    target: Target
    size: str
    cycles: int
    clock: str
    rx: str
    tx: str
    package: str = "CABGA381"
    speed: int = 6
    mhz: float = 25.0


_85F, _45F, _25F = (
    (Target("LFE5U-85F", 83_640, 104, is_serial=True), "85k", 65_536),
    (Target("LFE5U-45F", 43_848, 54, is_serial=True), "45k", 262_144),
    (Target("LFE5U-25F", 24_288, 28, is_serial=True), "25k", 262_144),
)
_ULX3S, _COLORLIGHT = ("G2", "M1", "L4"), ("P3", "H18", "J17")

BOARDS: Mapping[str, Board] = {
    "ulx3s-85f": Board(*_85F, *_ULX3S),
    "ulx3s-45f": Board(*_45F, *_ULX3S),
    "ulx3s-25f": Board(*_25F, *_ULX3S),
    "colorlight-i9": Board(*_45F, *_COLORLIGHT),
    "colorlight-i5": Board(*_25F, *_COLORLIGHT),
}
"""By name. Sizes from Lattice's FPGA-DS-02012; pins as in the boards' public constraint files."""


@dataclass(frozen=True)
class Pll:
    """Dividers of an ECP5 PLL with feedback from its output, and the frequency in MHz that they give."""

    reference: int
    feedback: int
    output: int
    mhz: float


def pll(source: float, wished: float) -> Pll:
    """The dividers whose frequency is nearest below `wished` MHz. Raises FpgaError where there are none."""
    found = []
    for reference in range(1, 9):
        for feedback in range(1, 81):
            mhz = source * feedback / reference
            output = min(128, math.floor(_VCO[1] / mhz))
            if mhz <= wished and output >= 1 and _VCO[0] <= mhz * output:
                found.append(Pll(reference, feedback, output, mhz))
    if not found:
        raise FpgaError(f"{wished:g} MHz cannot be made of the board's {source:g} MHz, expected 5 or more")
    return max(found, key=lambda each: (each.mhz, -each.reference))


def constraints(board: Board) -> str:
    """Pins and the oscillator's frequency, for nextpnr (.lpf)."""
    pins = {"clk": board.clock, "rx": board.rx, "tx": board.tx}
    lines = [f'LOCATE COMP "{name}" SITE "{pin}";\nIOBUF PORT "{name}" IO_TYPE=LVCMOS33;' for name, pin in pins.items()]
    return "\n".join([*lines, f'FREQUENCY PORT "clk" {board.mhz:g} MHZ;', ""])


def board_top(network: Network, board: Board, clock: Pll, baud: int) -> str:
    """Module `top`: the oscillator through the PLL, a reset until it is locked, and rtl/board.sv.

    Raises FpgaError where the clock is too slow for the serial port.
    """
    divider = round(clock.mhz * 1e6 / baud)
    if divider < _LEAST_DIVIDER or abs(clock.mhz * 1e6 / (divider * baud) - 1) > _WRONG_BAUD:
        raise FpgaError(f"{clock.mhz:g} MHz cannot be divided into {baud} baud, expected a multiple of it, or near one")
    model = network.model
    return _TOP.format(
        REFERENCE=clock.reference,
        FEEDBACK=clock.feedback,
        OUTPUT=clock.output,
        SOURCE=f"{board.mhz:g}",
        MHZ=f"{clock.mhz:g}",
        DIGEST=f"256'h{int.from_bytes(bytes.fromhex(model.digest or '00' * 32), 'little'):064x}",
        IN_WORDS=math.prod(model.input.shape),
        OUT_WORDS=math.prod(model.output_types[0].shape),
        OUT=network.engines[-1].out_bits,
        LOAD=network.load_bits,
        DIVIDER=divider,
    )


_TOP = """\
// {SOURCE} MHz from the board's oscillator, {MHZ} MHz for the network. Generated.
module top (input wire clk, input wire rx, output wire tx);
    wire fast, locked;
    (* FREQUENCY_PIN_CLKI="{SOURCE}" *)
    (* FREQUENCY_PIN_CLKOP="{MHZ}" *)
    EHXPLLL #(
        .PLLRST_ENA("DISABLED"), .INTFB_WAKE("DISABLED"), .STDBY_ENABLE("DISABLED"), .DPHASE_SOURCE("DISABLED"),
        .OUTDIVIDER_MUXA("DIVA"), .OUTDIVIDER_MUXB("DIVB"), .OUTDIVIDER_MUXC("DIVC"), .OUTDIVIDER_MUXD("DIVD"),
        .CLKI_DIV({REFERENCE}), .CLKFB_DIV({FEEDBACK}), .CLKOP_DIV({OUTPUT}), .CLKOP_ENABLE("ENABLED"),
        .CLKOP_CPHASE({OUTPUT} - 1), .CLKOP_FPHASE(0), .FEEDBK_PATH("CLKOP")
    ) clocks (
        .RST(1'b0), .STDBY(1'b0), .CLKI(clk), .CLKOP(fast), .CLKFB(fast), .LOCK(locked), .CLKINTFB(),
        .PHASESEL0(1'b0), .PHASESEL1(1'b0), .PHASEDIR(1'b1), .PHASESTEP(1'b1), .PHASELOADREG(1'b1),
        .PLLWAKESYNC(1'b0), .ENCLKOP(1'b0)
    );
    reg [7:0] reset = 8'hff;
    always @(posedge fast) reset <= {{reset[6:0], !locked}};
    edgemeta_board #(
        .DIGEST({DIGEST}),
        .IN_WORDS({IN_WORDS}), .OUT_WORDS({OUT_WORDS}), .OUT({OUT}), .LOAD({LOAD}), .DIVIDER({DIVIDER})
    ) board (.clk(fast), .rst(reset[7]), .rx(rx), .tx(tx));
endmodule
"""
