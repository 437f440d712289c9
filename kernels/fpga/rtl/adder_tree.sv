// Sum of COUNT signed integers of PRODUCT bits by a tree of adders.
//
// Registers lie behind every second level of the tree (the leaves are one) and at its end. The sum appears LATENCY
// clocks after its inputs, modulo 2**WIDTH. Each sum is kept: Yosys would join two levels without a register between
// them into carry-save adders, which take more LUTs than the carry chains that they save.
`default_nettype none

module edgemeta_adder_tree #(
    parameter integer COUNT = 9,
    parameter integer PRODUCT = 16,
    parameter integer WIDTH = 24,
    // derived
    parameter integer LEVELS = COUNT > 1 ? $clog2(COUNT) : 0,
    parameter integer LATENCY = LEVELS / 2 + 1
) (
    input  wire                     clk,
    input  wire [COUNT*PRODUCT-1:0] products,
    output wire signed [WIDTH-1:0]  sum
);

    genvar i, level;
    generate
        // Level l holds ceil(COUNT / 2**l) sums. A register lies behind level 1, 3, ... and the last.
        for (level = 0; level <= LEVELS; level = level + 1) begin : tree
            localparam integer SUMS = (COUNT + (1 << level) - 1) >> level;
            localparam integer SIZE = PRODUCT + level > WIDTH ? WIDTH : PRODUCT + level;
            localparam integer REGISTERED = level == LEVELS || level % 2 == 1;
            wire [SUMS*SIZE-1:0] value;
            wire [SUMS*SIZE-1:0] out;
            if (level == 0) begin : leaves
                assign value = products;
            end else begin : sums
                localparam integer BELOW = (COUNT + (1 << (level - 1)) - 1) >> (level - 1);
                localparam integer NARROW = PRODUCT + level - 1 > WIDTH ? WIDTH : PRODUCT + level - 1;
                for (i = 0; i < SUMS; i = i + 1) begin : each
                    wire signed [NARROW-1:0] a = tree[level-1].out[2*i*NARROW +: NARROW];
                    (* keep *) wire signed [SIZE-1:0] total;
                    if (2 * i + 1 < BELOW) begin : pair
                        wire signed [NARROW-1:0] b = tree[level-1].out[(2*i+1)*NARROW +: NARROW];
                        assign total = a + b;
                    end else begin : single
                        assign total = a;
                    end
                    assign value[i*SIZE +: SIZE] = total;
                end
            end
            if (REGISTERED) begin : registers
                reg [SUMS*SIZE-1:0] q;
                always @(posedge clk) q <= value;
                assign out = q;
            end else begin : wires
                assign out = value;
            end
        end
        localparam integer LAST = PRODUCT + LEVELS > WIDTH ? WIDTH : PRODUCT + LEVELS;
        wire signed [LAST-1:0] total = tree[LEVELS].out;
        assign sum = total;
    endgenerate

endmodule

`default_nettype wire
