// Convolution engine: line buffer, shift-and-add, requantization. A dense layer is a 1x1 convolution of a 1x1 map.
//
// Each clock it sums the products of one CHUNK (all K * K taps of C / FOLDS channels) for one output channel.
// A pixel takes STEPS = OUT_C * TERMS * FOLDS clocks: output channels outermost, then TERMS (a k-bit fixed
// weight is a sum of TERMS powers of two, 1 for power-of-two weights), then chunks. Memories, a word for each clock:
//   FILE_weights.mem     STEPS words of K * K * C / FOLDS codes
//   FILE_start.mem       OUT_C words of {shift (5 bits, where SHIFTS), start value (WIDTH bits)}
//   FILE_table.mem       tables of the channels, 256 bytes each
// They have the numbers NUMBER, NUMBER + 1, NUMBER + 2 for loading.
// A result is started only when the output FIFO has room for it: the pipeline never stops.
`default_nettype none

module edgemeta_conv #(
    parameter integer H = 8,
    parameter integer W = 8,
    parameter integer C = 4,
    parameter integer OUT_C = 8,
    parameter integer K = 3,
    parameter integer STRIDE = 1,
    parameter integer TOP = 1,
    parameter integer LEFT = 1,
    parameter integer OUT_H = 8,
    parameter integer OUT_W = 8,
    parameter integer FOLDS = 1,
    parameter integer TERMS = 1,
    parameter integer BITS = 8,           // of an element of the input stream, stored
    parameter integer SIGNED = 1,
    parameter integer PAD = 0,
    parameter integer CODE = 5,
    parameter integer WIDTH = 24,
    parameter integer MODE = 1,
    parameter integer SHIFTS = 0,
    parameter integer SHIFT = 4,
    parameter integer TABLES = 1,         // tables
    parameter integer LO = -128,
    parameter integer HI = 127,
    parameter LINE_STYLE = "block",
    parameter WEIGHT_STYLE = "block",
    parameter TABLE_STYLE = "block",
    parameter FILE = "",
    parameter integer NUMBER = 0,
    parameter integer LOAD = 32,          // bits of load_word, at least those of every memory word
    // derived
    parameter integer OUT = MODE == 0 ? 32 : 8
) (
    input  wire                     clk,
    input  wire                     rst,
    input  wire [7:0]               in_data,
    input  wire                     in_valid,
    output wire                     in_ready,
    output wire [OUT-1:0]           out_data,
    output wire                     out_valid,
    input  wire                     out_ready,
    input  wire                     load_valid,
    input  wire [15:0]              load_memory,
    input  wire [15:0]              load_row,
    input  wire [LOAD-1:0]          load_word
);

    localparam integer CHUNKS = TERMS * FOLDS;
    localparam integer STEPS = OUT_C * CHUNKS;
    localparam integer CHANNELS = C / FOLDS;            // of a chunk
    localparam integer COUNT = K * K * CHANNELS;        // products per clock
    localparam integer STEPW = STEPS > 1 ? $clog2(STEPS) : 1;
    localparam integer GROUPW = OUT_C > 1 ? $clog2(OUT_C) : 1;
    localparam integer FOLDW = FOLDS > 1 ? $clog2(FOLDS) : 1;
    localparam integer CHUNKW = CHUNKS > 1 ? $clog2(CHUNKS) : 1;
    localparam integer FOLDS2 = 1 << (FOLDS > 1 ? $clog2(FOLDS) : 0);
    localparam integer START = WIDTH + (SHIFTS != 0 ? 5 : 0);
    localparam integer TABLEW = TABLES > 1 ? $clog2(TABLES) : 1;
    localparam integer ROOM = 32;                       // words of the output FIFO

    // ---- windows ----
    wire [K*K*C*BITS-1:0] window;
    wire window_valid, take;
    edgemeta_window #(
        .H(H), .W(W), .C(C), .K(K), .STRIDE(STRIDE), .TOP(TOP), .LEFT(LEFT), .OUT_H(OUT_H), .OUT_W(OUT_W),
        .BITS(BITS), .PAD(PAD), .STYLE(LINE_STYLE)
    ) line_buffer (
        .clk(clk), .rst(rst), .in_data(in_data), .in_valid(in_valid), .in_ready(in_ready),
        .window(window), .out_valid(window_valid), .out_ready(take)
    );

    // ---- steps: the window is held while they are issued ----
    reg [K*K*C*BITS-1:0] held;
    reg busy;
    reg [STEPW-1:0] step;
    reg [GROUPW-1:0] group;
    reg [CHUNKW-1:0] chunk;
    reg [FOLDW-1:0] fold;
    reg [$clog2(ROOM+1)-1:0] promised;                  // results under way or in the output FIFO
    wire first_chunk = chunk == 0;
    wire last_chunk = chunk == CHUNKS - 1;
    wire issue = busy && (!last_chunk || promised != ROOM);
    wire pixel_done = issue && step == STEPS - 1;
    assign take = window_valid && (!busy || pixel_done);
    wire popped = out_valid && out_ready;

    always @(posedge clk) begin
        if (rst) begin
            busy <= 1'b0;
            step <= 0;
            group <= 0;
            chunk <= 0;
            fold <= 0;
            promised <= 0;
        end else begin
            if (take) busy <= 1'b1;
            else if (pixel_done) busy <= 1'b0;
            if (issue) begin
                step <= pixel_done ? 0 : step + 1'b1;
                fold <= fold == FOLDS - 1 ? 0 : fold + 1'b1;
                chunk <= last_chunk ? 0 : chunk + 1'b1;
                if (last_chunk) group <= group == OUT_C - 1 ? 0 : group + 1'b1;
            end
            if (issue && last_chunk && !popped) promised <= promised + 1'b1;
            if (popped && !(issue && last_chunk)) promised <= promised - 1'b1;
        end
        if (take) held <= window;
    end

    // ---- one chunk of the window, one clock after its step; the codes come at the same time ----
    // Product (u * K + v) * CHANNELS + c is tap (u, v) of channel fold * CHANNELS + c.
    reg [COUNT*BITS-1:0] x;
    wire [COUNT*CODE-1:0] codes;
    genvar u, v, c, f;
    generate
        for (u = 0; u < K; u = u + 1) begin : row
            for (v = 0; v < K; v = v + 1) begin : column
                for (c = 0; c < CHANNELS; c = c + 1) begin : channel
                    wire [FOLDS2*BITS-1:0] candidates;
                    for (f = 0; f < FOLDS2; f = f + 1) begin : folds
                        localparam integer FROM = (f < FOLDS ? f : FOLDS - 1) * CHANNELS + c;
                        assign candidates[f*BITS +: BITS] = held[((v*C + FROM)*K + u)*BITS +: BITS];
                    end
                    reg [FOLDS2*BITS-1:0] rest;
                    integer level, pair;
                    always @* begin
                        rest = candidates;
                        for (level = 0; level < $clog2(FOLDS2); level = level + 1)
                            for (pair = 0; pair < (FOLDS2 >> (level + 1)); pair = pair + 1)
                                rest[pair*BITS +: BITS] =
                                    fold[level] ? rest[(2*pair+1)*BITS +: BITS] : rest[2*pair*BITS +: BITS];
                    end
                    always @(posedge clk) x[((u*K+v)*CHANNELS+c)*BITS +: BITS] <= rest[BITS-1:0];
                end
            end
        end
    endgenerate

    edgemeta_memory #(
        .WIDTH(COUNT * CODE), .DEPTH(STEPS), .STYLE(WEIGHT_STYLE), .FILE({FILE, "_weights.mem"}),
        .NUMBER(NUMBER)
    ) weights (
        .clk(clk), .address(step), .data(codes),
        .load_valid(load_valid), .load_memory(load_memory), .load_row(load_row),
        .load_word(load_word[COUNT*CODE-1:0])
    );

    // ---- what goes along with a sum: valid, first and last chunk, output group ----
    localparam integer LEVELS = COUNT > 1 ? $clog2(COUNT) : 0;
    localparam integer LATENCY = 1 + LEVELS / 2 + 1;    // the latter two as in adder_tree.sv
    localparam integer TAG = GROUPW + 2;
    reg [LATENCY:0] valid;                              // [i]: i + 1 clocks after the step
    reg [(LATENCY+1)*TAG-1:0] tags;
    always @(posedge clk) begin
        if (rst) valid <= 0;
        else valid <= {valid[LATENCY-1:0], issue};
        tags <= {tags[LATENCY*TAG-1:0], group, first_chunk, last_chunk};
    end
    wire sum_valid = valid[LATENCY];
    wire sum_first = tags[LATENCY*TAG+1];
    wire sum_last = tags[LATENCY*TAG];
    wire [GROUPW-1:0] sum_group = tags[LATENCY*TAG+2 +: GROUPW];
    wire [GROUPW-1:0] group_before = tags[(LATENCY-1)*TAG+2 +: GROUPW];

    wire [START-1:0] starts;
    edgemeta_memory #(
        .WIDTH(START), .DEPTH(OUT_C), .FILE({FILE, "_start.mem"}), .NUMBER(NUMBER + 1),
        .STYLE(WEIGHT_STYLE == "block" ? "distributed" : WEIGHT_STYLE)
    ) start_values (
        .clk(clk), .address(group_before), .data(starts),
        .load_valid(load_valid), .load_memory(load_memory), .load_row(load_row),
        .load_word(load_word[START-1:0])
    );

    // ---- accumulate, requantize ----
    reg result_valid, table_valid, out_written;
    reg [GROUPW-1:0] result_group;
    wire [OUT-1:0] results;
    always @(posedge clk) begin
        if (rst) {result_valid, table_valid, out_written} <= 3'b000;
        else {result_valid, table_valid, out_written} <= {sum_valid && sum_last, result_valid, table_valid};
        result_group <= sum_group;
    end

    wire signed [WIDTH-1:0] sum;
    edgemeta_shift_add #(.COUNT(COUNT), .BITS(BITS), .SIGNED(SIGNED), .CODE(CODE), .WIDTH(WIDTH)) products (
        .clk(clk), .x(x), .codes(codes), .sum(sum)
    );

    wire signed [WIDTH-1:0] start = starts[WIDTH-1:0];
    reg signed [WIDTH-1:0] accumulator;
    wire [4:0] shift;
    wire [TABLEW-1:0] table_row;
    generate
        if (CHUNKS > 1) begin : accumulate
            always @(posedge clk) if (sum_valid) accumulator <= (sum_first ? start : accumulator) + sum;
        end else begin : at_once
            always @(posedge clk) accumulator <= start + sum;
        end
        if (SHIFTS != 0) begin : own_shift
            reg [4:0] shift_q;
            always @(posedge clk) shift_q <= starts[WIDTH +: 5];
            assign shift = shift_q;
        end else begin : one_shift
            assign shift = SHIFT[4:0];
        end
        if (TABLES > 1) begin : rows
            assign table_row = result_group[TABLEW-1:0];
        end else begin : no_rows
            assign table_row = 1'b0;
        end
    endgenerate

    edgemeta_requantize #(
        .MODE(MODE), .WIDTH(WIDTH), .SHIFTS(SHIFTS), .SHIFT(SHIFT), .ROWS(TABLES), .LO(LO), .HI(HI),
        .STYLE(TABLE_STYLE), .FILE({FILE, "_table.mem"}), .NUMBER(NUMBER + 2)
    ) requantize (
        .clk(clk), .accumulator(accumulator), .shift(shift), .row(table_row), .y(results),
        .load_valid(load_valid), .load_memory(load_memory), .load_row(load_row), .load_word(load_word[7:0])
    );

    wire unused_ready;
    edgemeta_fifo #(.WIDTH(OUT), .DEPTH(ROOM), .STYLE("distributed")) out_fifo (
        .clk(clk), .rst(rst), .in_data(results), .in_valid(out_written), .in_ready(unused_ready),
        .out_data(out_data), .out_valid(out_valid), .out_ready(out_ready)
    );

endmodule

`default_nettype wire
