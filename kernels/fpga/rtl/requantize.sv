// Requantization: an accumulator becomes an output integer by shift and table, by shift and clamp, or not at all.
//
// The rounding half (and for a clamp the output's zero point) is part of the start value of the accumulator, so
// round(v, s) is a plain arithmetic shift here. MODE 0: the accumulator itself, 32 bits. MODE 1: t = clamp(acc >>
// shift, -128, 127), y = table[row][t + 128]. MODE 2: y = clamp(acc >> shift, LO, HI). MODE 3: as 1 for tables that are
// lines, y = clamp(a * (t + 128) + b >> LINE_SHIFT, LO, HI), whose {b, a} are a word of LINE_B + LINE_A bits for each
// table, b signed: a few hundred LUTs instead of block RAM. The product is a sum of shifted copies of a.
// A value lies within int8 if its upper bits equal its sign.
`default_nettype none

module edgemeta_requantize #(
    parameter integer MODE = 1,
    parameter integer WIDTH = 24,
    parameter integer SHIFTS = 1,        // 1: `shift` is an input; 0: SHIFT holds for all channels
    parameter integer SHIFT = 0,
    parameter integer ROWS = 1,          // tables
    parameter integer LO = -128,
    parameter integer HI = 127,
    parameter integer LINE_A = 1,        // bits
    parameter integer LINE_B = 1,
    parameter integer LINE_SHIFT = 0,
    parameter STYLE = "block",
    parameter FILE = "",
    parameter integer NUMBER = 0,
    // derived
    parameter integer OUT = MODE == 0 ? 32 : 8,
    parameter integer ROWW = ROWS > 1 ? $clog2(ROWS) : 1,
    parameter integer WORD = MODE == 3 ? LINE_B + LINE_A : 8,
    parameter integer LATENCY = MODE == 3 ? 6 : 3
) (
    input  wire                    clk,
    input  wire signed [WIDTH-1:0] accumulator,
    input  wire [4:0]              shift,
    input  wire [ROWW-1:0]         row,
    output wire [OUT-1:0]          y,
    input  wire                    load_valid,
    input  wire [15:0]             load_memory,
    input  wire [15:0]             load_row,
    input  wire [WORD-1:0]         load_word
);

    localparam integer WIDE = WIDTH > 32 ? WIDTH : 32;

    generate
        if (MODE == 0) begin : raw
            wire signed [31:0] extended = accumulator;
            reg signed [31:0] first, second, third;
            always @(posedge clk) begin
                first <= extended;
                second <= first;
                third <= second;
            end
            assign y = third;
        end else begin : clamped
            reg signed [WIDTH-1:0] shifted;
            always @(posedge clk) shifted <= SHIFTS != 0 ? accumulator >>> shift : accumulator >>> SHIFT;
            reg [7:0] t;
            wire signed [WIDE-1:0] wide = shifted;
            wire fits = &wide[WIDE-1:7] || !(|wide[WIDE-1:7]);
            if (MODE != 2) begin : saturate
                always @(posedge clk) t <= fits ? wide[7:0] : {wide[WIDE-1], {7{!wide[WIDE-1]}}};
            end else begin : limit
                always @(posedge clk) t <= wide < LO ? LO[7:0] : wide > HI ? HI[7:0] : wide[7:0];
            end
            if (MODE == 1) begin : lookup
                localparam integer ADDRESS = ROWS > 1 ? ROWW + 8 : 8;
                wire [ADDRESS-1:0] entry;
                if (ROWS > 1) begin : tables
                    reg [ROWW-1:0] row_q, row_qq;
                    always @(posedge clk) begin
                        row_q <= row;
                        row_qq <= row_q;
                    end
                    assign entry = {row_qq, ~t[7], t[6:0]};
                end else begin : one_table
                    assign entry = {~t[7], t[6:0]};
                end
                edgemeta_memory #(
                    .WIDTH(8), .DEPTH(ROWS * 256), .STYLE(STYLE), .FILE(FILE), .NUMBER(NUMBER)
                ) table_memory (
                    .clk(clk), .address(entry), .data(y),
                    .load_valid(load_valid), .load_memory(load_memory), .load_row(load_row), .load_word(load_word)
                );
            end else if (MODE == 3) begin : line
                localparam integer TERM = LINE_A + 8 > LINE_B ? LINE_A + 8 : LINE_B;
                wire [WORD-1:0] read;
                reg [WORD-1:0] line_of;
                edgemeta_memory #(
                    .WIDTH(WORD), .DEPTH(ROWS), .STYLE(STYLE), .FILE(FILE), .NUMBER(NUMBER)
                ) lines (
                    .clk(clk), .address(row), .data(read),
                    .load_valid(load_valid), .load_memory(load_memory), .load_row(load_row), .load_word(load_word)
                );
                always @(posedge clk) line_of <= read;
                wire [TERM-1:0] a = line_of[LINE_A-1:0];
                wire signed [LINE_B-1:0] b = line_of[WORD-1:LINE_A];
                wire signed [TERM-1:0] wide_b = b;
                wire [7:0] entry = {~t[7], t[6:0]};
                wire [9*TERM-1:0] terms;
                genvar i;
                for (i = 0; i < 8; i = i + 1) begin : products
                    assign terms[i*TERM +: TERM] = entry[i] ? a << i : {TERM{1'b0}};
                end
                assign terms[8*TERM +: TERM] = wide_b;
                wire signed [TERM+1:0] sum;
                edgemeta_adder_tree #(.COUNT(9), .PRODUCT(TERM), .WIDTH(TERM + 2)) tree (
                    .clk(clk), .products(terms), .sum(sum)
                );
                wire signed [TERM+1:0] y_wide = sum >>> LINE_SHIFT;
                reg [7:0] out;
                always @(posedge clk) out <= y_wide < LO ? LO[7:0] : y_wide > HI ? HI[7:0] : y_wide[7:0];
                assign y = out;
            end else begin : clamp
                reg [7:0] out;
                always @(posedge clk) out <= t;
                assign y = out;
            end
        end
    endgenerate

endmodule

`default_nettype wire
