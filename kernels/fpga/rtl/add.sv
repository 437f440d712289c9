// Residual addition of two streams: y = clamp(ZERO + ((a << SHIFT_A) + (b << SHIFT_B) + BIAS >>> SHIFT), LO, HI).
//
// BIAS holds the zero points of the inputs and the rounding half. SHIFT_A, SHIFT_B: the multipliers, powers of two; -1
// is the multiplier 0. SIGNED_A, SIGNED_B: how the bytes are read. One word per clock; operands, sum and clamp have
// registers. A word is added only when the output FIFO has room for it, so no handshake passes through.
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
    output wire [7:0] out_data,
    output wire       out_valid,
    input  wire       out_ready
);

    localparam integer ROOM = 16;                        // words of the output FIFO
    reg [$clog2(ROOM+1)-1:0] promised;
    reg room;                                            // as of a clock ago, one word to spare
    wire go = a_valid && b_valid && room;
    wire popped = out_valid && out_ready;
    assign a_ready = go;
    assign b_ready = go;

    // |a|, |b| < 2**8, so |sum| < 2**(MOST + 1); ZERO takes another bit.
    localparam integer FAR = SHIFT_A > SHIFT_B ? SHIFT_A : SHIFT_B;
    localparam integer BIASW = $clog2((BIAS < 0 ? -BIAS : BIAS) + 1);
    localparam integer MOST = BIASW > 9 + (FAR < 0 ? 0 : FAR) ? BIASW : 9 + (FAR < 0 ? 0 : FAR);
    localparam integer WIDTH = MOST + 3;
    reg signed [8:0] a, b;
    wire signed [WIDTH-1:0] wide_a = a, wide_b = b;
    wire signed [WIDTH-1:0] left = SHIFT_A < 0 ? 0 : wide_a <<< (SHIFT_A < 0 ? 0 : SHIFT_A);
    wire signed [WIDTH-1:0] right = SHIFT_B < 0 ? 0 : wide_b <<< (SHIFT_B < 0 ? 0 : SHIFT_B);
    wire signed [WIDTH-1:0] sum = left + right + BIAS;
    reg signed [WIDTH-1:0] rounded;
    reg [7:0] result;
    reg read, rounded_valid, out_written;

    always @(posedge clk) begin
        if (rst) begin
            {read, rounded_valid, out_written} <= 3'b000;
            promised <= 0;
            room <= 1'b1;
        end else begin
            {read, rounded_valid, out_written} <= {go, read, rounded_valid};
            if (go && !popped) promised <= promised + 1'b1;
            if (popped && !go) promised <= promised - 1'b1;
            room <= promised < ROOM - 1;
        end
        a <= {SIGNED_A != 0 && a_data[7], a_data};
        b <= {SIGNED_B != 0 && b_data[7], b_data};
        rounded <= (sum >>> SHIFT) + ZERO;
        result <= rounded < LO ? LO[7:0] : rounded > HI ? HI[7:0] : rounded[7:0];
    end

    wire unused_ready;
    edgemeta_fifo #(.WIDTH(8), .DEPTH(ROOM), .STYLE("distributed")) out_fifo (
        .clk(clk), .rst(rst), .in_data(result), .in_valid(out_written), .in_ready(unused_ready),
        .out_data(out_data), .out_valid(out_valid), .out_ready(out_ready)
    );

endmodule

`default_nettype wire
