// The network behind a serial port, for boards without a processor: two pins, no AXI. Memories are not loaded there.
`default_nettype none

module edgemeta_board #(
    parameter [255:0] DIGEST = 256'd0,       // word 0 in the low bits
    parameter integer IN_WORDS = 1,
    parameter integer OUT_WORDS = 1,
    parameter integer OUT = 32,              // bits of an output word
    parameter integer LOAD = 32,
    parameter integer DIVIDER = 20           // clocks per bit
) (
    input  wire clk,
    input  wire rst,
    input  wire rx,
    output wire tx
);

    wire [7:0] in_data;
    wire [OUT-1:0] out_data;
    wire in_valid, in_ready, out_valid, out_ready, network_rst;

    edgemeta_serial #(
        .DIGEST(DIGEST), .IN_WORDS(IN_WORDS), .OUT_WORDS(OUT_WORDS), .OUT(OUT), .DIVIDER(DIVIDER)
    ) serial (
        .clk(clk), .rst(rst), .rx(rx), .tx(tx), .network_rst(network_rst),
        .in_data(in_data), .in_valid(in_valid), .in_ready(in_ready),
        .out_data(out_data), .out_valid(out_valid), .out_ready(out_ready)
    );
    edgemeta_network network (
        .clk(clk), .rst(network_rst), .in_data(in_data), .in_valid(in_valid), .in_ready(in_ready),
        .out_data(out_data), .out_valid(out_valid), .out_ready(out_ready),
        .load_valid(1'b0), .load_memory(16'd0), .load_row(16'd0), .load_word({LOAD{1'b0}})
    );

endmodule

`default_nettype wire
