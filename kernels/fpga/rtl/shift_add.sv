// Sum of COUNT products of an integer and a power-of-two weight, without a multiplier: shift, invert, adder tree.
//
// A code is CODE bits: {negative, not zero, shift}. A negative weight gives the one's complement, so the sum is short
// by the number of negative weights; whoever makes the start value (the bias) adds that number. x: BITS each, signed if
// SIGNED. Registers lie behind the shift by 0 .. 3 and in the tree, so the sum, modulo 2**WIDTH, appears one clock and
// the tree's latency after its inputs.
`default_nettype none

module edgemeta_shift_add #(
    parameter integer COUNT = 9,
    parameter integer BITS = 8,
    parameter integer SIGNED = 1,
    parameter integer CODE = 5,
    parameter integer WIDTH = 24
) (
    input  wire                    clk,
    input  wire [COUNT*BITS-1:0]   x,
    input  wire [COUNT*CODE-1:0]   codes,
    output wire signed [WIDTH-1:0] sum
);

    localparam integer SHIFT = CODE - 2;                      // bits of the shift, 0 .. 3
    localparam integer LOW = SHIFT > 2 ? 2 : SHIFT;
    localparam integer NEAR = BITS + (1 << LOW) - 1;          // width behind the first shifter
    localparam integer MOST = (1 << SHIFT) - 1;
    localparam integer FULL = BITS + MOST + (SIGNED != 0 ? 0 : 1);
    localparam integer PRODUCT = FULL > WIDTH ? WIDTH : FULL;

    genvar i;
    wire [COUNT*PRODUCT-1:0] products;
    generate
        for (i = 0; i < COUNT; i = i + 1) begin : product
            wire [CODE-1:0] code = codes[i*CODE +: CODE];
            wire [BITS-1:0] value = x[i*BITS +: BITS];
            wire signed [BITS:0] integer_of = {SIGNED != 0 && value[BITS-1], value};
            wire signed [NEAR-1:0] wide = integer_of;  // extended by its sign, or cut to BITS
            reg [NEAR-1:0] near;
            reg negative, any;
            wire far;
            if (LOW == 0) begin : no_shift
                always @(posedge clk) near <= wide;
            end else begin : low_shift
                always @(posedge clk) near <= wide << code[LOW-1:0];
            end
            if (SHIFT > 2) begin : far_shift
                reg far_q;
                always @(posedge clk) far_q <= code[2];
                assign far = far_q;
            end else begin : no_far_shift
                assign far = 1'b0;
            end
            always @(posedge clk) begin
                negative <= code[CODE-1];
                any <= code[CODE-2];
            end
            wire signed [NEAR:0] near_signed = {SIGNED != 0 && near[NEAR-1], near};
            wire signed [FULL-1:0] near_full = near_signed;
            wire [FULL-1:0] shifted = far ? near_full << 4 : near_full;
            wire [FULL-1:0] signed_product = (any ? shifted : {FULL{1'b0}}) ^ {FULL{negative}};
            assign products[i*PRODUCT +: PRODUCT] = signed_product[PRODUCT-1:0];
        end
    endgenerate

    edgemeta_adder_tree #(.COUNT(COUNT), .PRODUCT(PRODUCT), .WIDTH(WIDTH)) tree (
        .clk(clk), .products(products), .sum(sum)
    );

endmodule

`default_nettype wire
