// A memory with one synchronous read port and one write port for loading: weights, biases, tables.
//
// WIDTH, DEPTH: bits and words. STYLE: "block" (block RAM), "distributed" (LUT RAM), "logic" (constants: the load port
// is not connected, so synthesis folds the contents). FILE: its contents in $readmemh's form.
// NUMBER: what load_memory must be for a word to be written. Latency 1.
// With the macro EDGEMETA_FIXED nothing is loaded; LUT RAM is logic then, as no cell holds a LUT RAM without a write.
`default_nettype none

module edgemeta_memory #(
    parameter integer WIDTH = 8,
    parameter integer DEPTH = 16,
    parameter STYLE = "block",
    parameter FILE = "",
    parameter integer NUMBER = 0,
    parameter integer ADDRESS = DEPTH > 1 ? $clog2(DEPTH) : 1
) (
    input  wire               clk,
    input  wire [ADDRESS-1:0] address,
    output reg  [WIDTH-1:0]   data,
    input  wire               load_valid,
    input  wire [15:0]        load_memory,
    input  wire [15:0]        load_row,
    input  wire [WIDTH-1:0]   load_word
);

`ifdef EDGEMETA_FIXED
    localparam integer FIXED = 1;
`else
    localparam integer FIXED = 0;
`endif
    wire write = load_valid && load_memory == NUMBER[15:0];

    generate
        if (STYLE == "logic" || (FIXED && STYLE == "distributed")) begin : constants
            reg [WIDTH-1:0] words [0:DEPTH-1];
            initial $readmemh(FILE, words);
            always @(posedge clk) data <= words[address];
        end else if (STYLE == "distributed") begin : lut_ram
            (* ram_style = "distributed" *) reg [WIDTH-1:0] words [0:DEPTH-1];
            initial $readmemh(FILE, words);
            always @(posedge clk) begin
                data <= words[address];
                if (write) words[load_row[ADDRESS-1:0]] <= load_word;
            end
        end else begin : block_ram
            (* ram_style = "block" *) reg [WIDTH-1:0] words [0:DEPTH-1];
            initial $readmemh(FILE, words);
            always @(posedge clk) begin
                data <= words[address];
                if (write) words[load_row[ADDRESS-1:0]] <= load_word;
            end
        end
    endgenerate

endmodule

`default_nettype wire
