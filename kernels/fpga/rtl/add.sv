// Residual addition of two streams: y = clamp(ZERO + ((a << SHIFT_A) + (b << SHIFT_B) + BIAS >>> SHIFT), LO, HI).
//
// BIAS holds the zero points of the inputs and the rounding half. SHIFT_A, SHIFT_B: the multipliers, powers of two; -1
// is the multiplier 0. SIGNED_A, SIGNED_B: how the bytes are read. One word per clock, one clock of latency.
`default_nettype none

module edgemeta_add #(
    parameter integer SIGNED_A = 1,
    parameter integer SIGNED_B = 1,
    parameter integer SHIFT_A = 0,
    parameter integer SHIFT_B = 0,
    parameter integer BIAS = 0,
    parameter integer SHIFT = 0,
    parameter integer ZERO = 0,
    parameter integer LO = -128,
    parameter integer HI = 127
) (
    input  wire       clk,
    input  wire       rst,
    input  wire [7:0] a_data,
    input  wire       a_valid,
    output wire       a_ready,
    input  wire [7:0] b_data,
    input  wire       b_valid,
    output wire       b_ready,
    output reg  [7:0] out_data,
    output reg        out_valid,
    input  wire       out_ready
);

    wire go = a_valid && b_valid && (!out_valid || out_ready);
    assign a_ready = go;
    assign b_ready = go;

    wire signed [31:0] a = {{24{SIGNED_A != 0 && a_data[7]}}, a_data};
    wire signed [31:0] b = {{24{SIGNED_B != 0 && b_data[7]}}, b_data};
    wire signed [31:0] left = SHIFT_A < 0 ? 0 : a <<< (SHIFT_A < 0 ? 0 : SHIFT_A);
    wire signed [31:0] right = SHIFT_B < 0 ? 0 : b <<< (SHIFT_B < 0 ? 0 : SHIFT_B);
    wire signed [31:0] rounded = (left + right + BIAS >>> SHIFT) + ZERO;

    always @(posedge clk) begin
        if (rst) out_valid <= 1'b0;
        else if (go) out_valid <= 1'b1;
        else if (out_ready) out_valid <= 1'b0;
        if (go) out_data <= rounded < LO ? LO[7:0] : rounded > HI ? HI[7:0] : rounded[7:0];
    end

endmodule

`default_nettype wire
