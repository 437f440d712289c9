// Clamp of a stream: y = clamp(x, LO, HI). Combinational.
`default_nettype none

module edgemeta_clamp #(
    parameter integer SIGNED = 1,
    parameter integer LO = 0,
    parameter integer HI = 127
) (
    input  wire [7:0] in_data,
    input  wire       in_valid,
    output wire       in_ready,
    output wire [7:0] out_data,
    output wire       out_valid,
    input  wire       out_ready
);

    wire signed [8:0] x = {SIGNED != 0 && in_data[7], in_data};
    assign out_data = x < LO ? LO[7:0] : x > HI ? HI[7:0] : in_data;
    assign out_valid = in_valid;
    assign in_ready = out_ready;

endmodule

`default_nettype wire
