// Sum of COUNT products of an integer and a CODE-bit weight by multipliers: shift_add.sv's baseline, with its ports.
//
// Synthesis maps the multipliers to DSP blocks. x: BITS each, signed if SIGNED. Registers lie behind the products and
// in the tree, so the sum, modulo 2**WIDTH, appears as late as in shift_add.sv.
`default_nettype none

module edgemeta_multiply_add #(
    parameter integer COUNT = 9,
    parameter integer BITS = 32,
    parameter integer SIGNED = 1,
    parameter integer CODE = 32,
    parameter integer WIDTH = 69,
    parameter integer EVERY = 2
) (
    input  wire                    clk,
    input  wire [COUNT*BITS-1:0]   x,
    input  wire [COUNT*CODE-1:0]   codes,
    output wire signed [WIDTH-1:0] sum
);

    localparam integer FACTOR = BITS + (SIGNED != 0 ? 0 : 1);
    localparam integer FULL = FACTOR + CODE;
    localparam integer PRODUCT = FULL > WIDTH ? WIDTH : FULL;

    genvar i;
    wire [COUNT*PRODUCT-1:0] products;
    generate
        for (i = 0; i < COUNT; i = i + 1) begin : product
            wire signed [CODE-1:0] weight = codes[i*CODE +: CODE];
            wire signed [FACTOR-1:0] value;
            if (SIGNED != 0) begin : signed_value
                assign value = x[i*BITS +: BITS];
            end else begin : unsigned_value
                assign value = {1'b0, x[i*BITS +: BITS]};
            end
            edgemeta_multiply #(.FACTOR(FACTOR), .CODE(CODE), .PRODUCT(PRODUCT)) multiply (
                .clk(clk), .value(value), .weight(weight), .product(products[i*PRODUCT +: PRODUCT])
            );
        end
    endgenerate

    edgemeta_adder_tree #(.COUNT(COUNT), .PRODUCT(PRODUCT), .WIDTH(WIDTH), .EVERY(EVERY)) tree (
        .clk(clk), .products(products), .sum(sum)
    );

endmodule

module edgemeta_multiply #(
    parameter integer FACTOR = 32,
    parameter integer CODE = 32,
    parameter integer PRODUCT = 64
) (
    input  wire                      clk,
    input  wire signed [FACTOR-1:0]  value,
    input  wire signed [CODE-1:0]    weight,
    output reg  signed [PRODUCT-1:0] product
);

    always @(posedge clk) product <= value * weight;

endmodule

`default_nettype wire
