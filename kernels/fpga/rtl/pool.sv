// Global average pool: sums the PIXELS of each of C channels, then requantizes, which includes the division.
//
// One input integer per clock. FILE_start.mem: C words {shift (5 bits, where SHIFTS), start value (WIDTH bits)};
// FILE_table.mem: tables or lines. The memories' numbers for loading are NUMBER and NUMBER + 1.
`default_nettype none

module edgemeta_pool #(
    parameter integer C = 4,
    parameter integer PIXELS = 4,
    parameter integer SIGNED = 1,
    parameter integer WIDTH = 16,
    parameter integer MODE = 1,
    parameter integer SHIFTS = 0,
    parameter integer SHIFT = 2,
    parameter integer TABLES = 1,
    parameter integer LO = -128,
    parameter integer HI = 127,
    parameter integer LINE_A = 1,
    parameter integer LINE_B = 1,
    parameter integer LINE_SHIFT = 0,
    parameter TABLE_STYLE = "block",
    parameter FILE = "",
    parameter integer NUMBER = 0,
    parameter integer LOAD = 32
) (
    input  wire            clk,
    input  wire            rst,
    input  wire [7:0]      in_data,
    input  wire            in_valid,
    output wire            in_ready,
    output wire [7:0]      out_data,
    output wire            out_valid,
    input  wire            out_ready,
    input  wire            load_valid,
    input  wire [15:0]     load_memory,
    input  wire [15:0]     load_row,
    input  wire [LOAD-1:0] load_word
);

    localparam integer CW = C > 1 ? $clog2(C) : 1;
    localparam integer PW = PIXELS > 1 ? $clog2(PIXELS) : 1;
    localparam integer START = WIDTH + (SHIFTS != 0 ? 5 : 0);
    localparam integer TABLEW = TABLES > 1 ? $clog2(TABLES) : 1;
    localparam integer ROOM = 16;

    reg [CW-1:0] channel;
    reg [PW-1:0] pixel;
    reg [$clog2(ROOM+1)-1:0] promised;      // results under way or in the output FIFO
    wire first = pixel == 0;
    reg last;                               // the last pixel's channels
    reg room;                               // as of a clock ago, one word to spare
    wire popped = out_valid && out_ready;
    assign in_ready = !last || room;
    wire take = in_valid && in_ready;

    always @(posedge clk) begin
        if (rst) begin
            channel <= 0;
            pixel <= 0;
            promised <= 0;
            last <= PIXELS == 1;
            room <= 1'b1;
        end else begin
            room <= promised < ROOM - 1;
            if (take) channel <= channel == C - 1 ? 0 : channel + 1'b1;
            if (take && channel == C - 1) begin
                pixel <= last ? 0 : pixel + 1'b1;
                last <= PIXELS == 1 || (!last && pixel == PIXELS - 2);
            end
            if (take && last && !popped) promised <= promised + 1'b1;
            if (popped && !(take && last)) promised <= promised - 1'b1;
        end
    end

    // ---- one clock behind: the start value is there; the channel's sum is read, added to and written ----
    localparam integer BEHIND = MODE == 3 ? 6 : 3;       // LATENCY of requantize.sv
    reg [7:0] x;
    reg valid, x_first, x_last;
    reg [CW-1:0] x_channel;
    wire [START-1:0] start_word;
    edgemeta_memory #(
        .WIDTH(START), .DEPTH(C), .STYLE("distributed"), .FILE({FILE, "_start.mem"}), .NUMBER(NUMBER)
    ) start_values (
        .clk(clk), .address(channel), .data(start_word),
        .load_valid(load_valid), .load_memory(load_memory), .load_row(load_row), .load_word(load_word[START-1:0])
    );
    (* ram_style = "distributed" *) reg [WIDTH-1:0] sums [0:C-1];
    wire signed [WIDTH-1:0] wide = {{(WIDTH-8){SIGNED != 0 && x[7]}}, x};
    wire signed [WIDTH-1:0] sum = (x_first ? start_word[WIDTH-1:0] : sums[x_channel]) + wide;

    reg [BEHIND:0] result_valid;            // [i]: i clocks after the accumulator is complete
    reg signed [WIDTH-1:0] accumulator;
    wire [4:0] shift;
    reg [CW-1:0] result_channel;
    always @(posedge clk) begin
        x <= in_data;
        x_first <= first;
        x_last <= last;
        x_channel <= channel;
        if (valid) sums[x_channel] <= sum;
        accumulator <= sum;
        result_channel <= x_channel;
        if (rst) {valid, result_valid} <= 0;
        else {valid, result_valid} <= {take, result_valid[BEHIND-1:0], valid && x_last};
    end
    generate
        if (SHIFTS != 0) begin : own_shift
            reg [4:0] shift_q;
            always @(posedge clk) shift_q <= start_word[WIDTH +: 5];
            assign shift = shift_q;
        end else begin : one_shift
            assign shift = SHIFT[4:0];
        end
    endgenerate

    wire [7:0] result;
    wire [TABLEW-1:0] table_row;
    generate
        if (TABLES > 1) begin : rows
            assign table_row = result_channel[TABLEW-1:0];
        end else begin : no_rows
            assign table_row = 1'b0;
        end
    endgenerate
    edgemeta_requantize #(
        .MODE(MODE), .WIDTH(WIDTH), .SHIFTS(SHIFTS), .SHIFT(SHIFT), .ROWS(TABLES), .LO(LO), .HI(HI),
        .LINE_A(LINE_A), .LINE_B(LINE_B), .LINE_SHIFT(LINE_SHIFT),
        .STYLE(TABLE_STYLE), .FILE({FILE, "_table.mem"}), .NUMBER(NUMBER + 1)
    ) requantize (
        .clk(clk), .accumulator(accumulator), .shift(shift), .row(table_row), .y(result),
        .load_valid(load_valid), .load_memory(load_memory), .load_row(load_row),
        .load_word(load_word[(MODE == 3 ? LINE_A + LINE_B : 8)-1:0])
    );

    wire unused_ready;
    edgemeta_fifo #(.WIDTH(8), .DEPTH(ROOM), .STYLE("distributed")) out_fifo (
        .clk(clk), .rst(rst), .in_data(result), .in_valid(result_valid[BEHIND]), .in_ready(unused_ready),
        .out_data(out_data), .out_valid(out_valid), .out_ready(out_ready)
    );

endmodule

`default_nettype wire
