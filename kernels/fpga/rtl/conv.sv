// Convolution engine: line buffer, shift-and-add, requantization. A dense layer is a 1x1 convolution of a 1x1 map.
//
// Each clock it sums the products of one CHUNK (all K * K taps of C / FOLDS channels) for one output channel.
// A pixel takes STEPS = OUT_C * TERMS * FOLDS clocks: output channels outermost, then TERMS (a k-bit fixed
// weight is a sum of TERMS powers of two, 1 for power-of-two weights), then chunks. Memories, a word for each clock:
//   FILE_weights.mem     STEPS words of K * K * C / FOLDS codes
//   FILE_start.mem       OUT_C words of {shift (5 bits, where SHIFTS), start value (WIDTH bits)}
//   FILE_table.mem       tables of the channels, 256 bytes each, or a line each (requantize.sv)
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
    parameter integer LINE_A = 1,
    parameter integer LINE_B = 1,
    parameter integer LINE_SHIFT = 0,
    parameter LINE_STYLE = "block",
    parameter WINDOW_STYLE = "registers",
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
    localparam integer START = WIDTH + (SHIFTS != 0 ? 5 : 0);
    localparam integer TABLEW = TABLES > 1 ? $clog2(TABLES) : 1;
    localparam integer ROOM = 32;                       // words of the output FIFO
    localparam integer DEEP = WINDOW_STYLE == "distributed"; // x and codes come a clock later: a register behind each

    // ---- windows ----
    wire [K*BITS-1:0] column;
    wire column_valid, column_last, column_go, window_valid;
    edgemeta_window #(
        .H(H), .W(W), .C(C), .K(K), .STRIDE(STRIDE), .TOP(TOP), .LEFT(LEFT), .OUT_H(OUT_H), .OUT_W(OUT_W),
        .BITS(BITS), .PAD(PAD), .STYLE(LINE_STYLE)
    ) line_buffer (
        .clk(clk), .rst(rst), .in_data(in_data), .in_valid(in_valid), .in_ready(in_ready),
        .column(column), .column_valid(column_valid), .last(column_last), .go(column_go)
    );

    // ---- steps: the window is held while they are issued. Flags are set a step ahead, so `take` is one LUT. ----
    reg busy;
    reg [STEPW-1:0] step;
    reg [GROUPW-1:0] group;
    reg [CHUNKW-1:0] chunk;
    reg [FOLDW-1:0] fold;
    reg last_chunk, last_step;
    reg room;                                           // as of a clock ago, one word to spare
    reg [$clog2(ROOM+1)-1:0] promised;                  // results under way or in the output FIFO
    wire issue = busy && (!last_chunk || room);
    wire pixel_done = busy && last_step && room;
    wire take = window_valid && (!busy || (last_step && room));
    wire popped = out_valid && out_ready;

    always @(posedge clk) begin
        if (rst) begin
            busy <= 1'b0;
            step <= 0;
            group <= 0;
            chunk <= 0;
            fold <= 0;
            promised <= 0;
            room <= 1'b1;
            last_chunk <= CHUNKS == 1;
            last_step <= STEPS == 1;
        end else begin
            if (take) busy <= 1'b1;
            else if (pixel_done) busy <= 1'b0;
            if (issue) begin
                step <= last_step ? 0 : step + 1'b1;
                last_step <= STEPS == 1 || (!last_step && step == STEPS - 2);
                fold <= fold == FOLDS - 1 ? 0 : fold + 1'b1;
                chunk <= last_chunk ? 0 : chunk + 1'b1;
                last_chunk <= CHUNKS == 1 || (!last_chunk && chunk == CHUNKS - 2);
                if (last_chunk) group <= last_step ? 0 : group + 1'b1;
            end
            if (issue && last_chunk && !popped) promised <= promised + 1'b1;
            if (popped && !(issue && last_chunk)) promised <= promised - 1'b1;
            room <= promised < ROOM - 1;
        end
    end

    wire [COUNT*BITS-1:0] x;
    wire [COUNT*CODE-1:0] read_codes, codes;
    edgemeta_stage #(
        .C(C), .K(K), .STRIDE(STRIDE), .OUT_W(OUT_W), .FOLDS(FOLDS), .BITS(BITS), .STYLE(WINDOW_STYLE)
    ) stage (
        .clk(clk), .rst(rst), .column(column), .column_valid(column_valid), .last(column_last), .go(column_go),
        .window_valid(window_valid), .take(take), .fold(fold), .x(x)
    );
    edgemeta_memory #(
        .WIDTH(COUNT * CODE), .DEPTH(STEPS), .STYLE(WEIGHT_STYLE), .FILE({FILE, "_weights.mem"}),
        .NUMBER(NUMBER)
    ) weights (
        .clk(clk), .address(step), .data(read_codes),
        .load_valid(load_valid), .load_memory(load_memory), .load_row(load_row),
        .load_word(load_word[COUNT*CODE-1:0])
    );
    generate
        if (DEEP) begin : behind_weights
            reg [COUNT*CODE-1:0] q;
            always @(posedge clk) q <= read_codes;
            assign codes = q;
        end else begin : at_weights
            assign codes = read_codes;
        end
    endgenerate

    // ---- what goes along with a sum: valid, first and last chunk, output group ----
    localparam integer LEVELS = COUNT > 1 ? $clog2(COUNT) : 0;
    localparam integer LATENCY = 1 + DEEP + LEVELS / 2 + 1;  // the latter two as in adder_tree.sv
    localparam integer TAG = GROUPW + 2;
    reg [LATENCY:0] valid;                              // [i]: i + 1 clocks after the step
    reg [(LATENCY+1)*TAG-1:0] tags;
    always @(posedge clk) begin
        if (rst) valid <= 0;
        else valid <= {valid[LATENCY-1:0], issue};
        tags <= {tags[LATENCY*TAG-1:0], group, chunk == 0, last_chunk};
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
    localparam integer BEHIND = MODE == 3 ? 6 : 3;      // LATENCY of requantize.sv
    reg [BEHIND:0] result_valid;                        // [i]: i clocks after the accumulator is complete
    reg [GROUPW-1:0] result_group;
    wire [OUT-1:0] results;
    always @(posedge clk) begin
        if (rst) result_valid <= 0;
        else result_valid <= {result_valid[BEHIND-1:0], sum_valid && sum_last};
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
        .LINE_A(LINE_A), .LINE_B(LINE_B), .LINE_SHIFT(LINE_SHIFT),
        .STYLE(TABLE_STYLE), .FILE({FILE, "_table.mem"}), .NUMBER(NUMBER + 2)
    ) requantize (
        .clk(clk), .accumulator(accumulator), .shift(shift), .row(table_row), .y(results),
        .load_valid(load_valid), .load_memory(load_memory), .load_row(load_row),
        .load_word(load_word[(MODE == 3 ? LINE_A + LINE_B : 8)-1:0])
    );

    wire unused_ready;
    edgemeta_fifo #(.WIDTH(OUT), .DEPTH(ROOM), .STYLE("distributed")) out_fifo (
        .clk(clk), .rst(rst), .in_data(results), .in_valid(result_valid[BEHIND]), .in_ready(unused_ready),
        .out_data(out_data), .out_valid(out_valid), .out_ready(out_ready)
    );

endmodule

`default_nettype wire
