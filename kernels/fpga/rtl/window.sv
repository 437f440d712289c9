// Line buffer: a stream of pixels becomes a stream of windows, with padding.
//
// The input is H x W x C integers, channel by channel, 8 bits each. Row banks (K + STRIDE of
// them, a ring) let the writer run ahead of the reader. The reader shifts columns of K integers into `stage`;
// when a window is complete there, `out_valid` rises, and it stays until `out_ready`. A window holds element (row u,
// column v, channel c) at position (v * C + c) * K + u, BITS each.
// Padding above TOP and left LEFT; below and right as far as OUT_H and OUT_W demand. PAD: the integer in the padding.
// A row of windows takes ((OUT_W - 1) * STRIDE + K) * C clocks and a few more between rows.
`default_nettype none

module edgemeta_window #(
    parameter integer H = 8,
    parameter integer W = 8,
    parameter integer C = 4,
    parameter integer K = 3,
    parameter integer STRIDE = 1,
    parameter integer TOP = 1,
    parameter integer LEFT = 1,
    parameter integer OUT_H = 8,
    parameter integer OUT_W = 8,
    parameter integer BITS = 8,
    parameter integer PAD = 0,
    parameter STYLE = "block"
) (
    input  wire                  clk,
    input  wire                  rst,
    input  wire [7:0]            in_data,
    input  wire                  in_valid,
    output wire                  in_ready,
    output reg  [K*K*C*BITS-1:0] window,
    output reg                   out_valid,
    input  wire                  out_ready
);

    localparam integer ROW = W * C;                        // words per row
    localparam integer BANKS = K + STRIDE;
    localparam integer COLUMNS = (OUT_W - 1) * STRIDE + K; // that a row of windows covers, padding included
    localparam integer AW = ROW > 1 ? $clog2(ROW) : 1;
    localparam integer BW = $clog2(BANKS + 1);
    localparam integer BEATW = C > 1 ? $clog2(C) : 1;
    localparam integer XW = $clog2(COLUMNS + W + LEFT + 1) + 1;
    localparam integer YW = $clog2(H + OUT_H * STRIDE + K + TOP + 2) + 1;

    genvar bank, k;

    // ---- writer ----
    reg [AW-1:0] write_at;
    reg [BW-1:0] write_bank, read_bank, filled;
    wire release_row;
    wire write = in_valid && in_ready;
    wire row_written = write && write_at == ROW - 1;
    assign in_ready = filled != BANKS[BW-1:0];

    always @(posedge clk) begin
        if (rst) begin
            write_at <= 0;
            write_bank <= 0;
            filled <= 0;
        end else begin
            if (write) write_at <= row_written ? 0 : write_at + 1'b1;
            if (row_written) write_bank <= write_bank == BANKS - 1 ? 0 : write_bank + 1'b1;
            if (row_written && !release_row) filled <= filled + 1'b1;
            if (release_row && !row_written) filled <= filled - 1'b1;
        end
    end

    // ---- reader: between rows it releases rows that no window needs any more, then waits for those that it needs ----
    reg reading;
    reg [YW-1:0] out_row;                 // row of windows
    reg signed [YW-1:0] top_row;          // its uppermost row in the input, negative in the padding
    reg [YW-1:0] base_row;                // the oldest row in the ring
    wire frame_done = out_row == OUT_H;
    wire signed [YW-1:0] first_row = frame_done ? H : top_row < 0 ? 0 : top_row;
    wire behind = $signed({1'b0, base_row}) < first_row;
    wire signed [YW-1:0] end_row = top_row + K > H ? H : top_row + K;
    wire have_rows = $signed({1'b0, filled}) >= end_row - $signed({1'b0, base_row});
    assign release_row = !reading && behind && filled != 0;
    wire start = !reading && !behind && !frame_done && have_rows;

    reg [K*BW-1:0] bank_of;               // of each row of the window
    reg [K-1:0] row_padded;
    wire [K*BW-1:0] next_bank_of;
    wire [K-1:0] next_row_padded;
    generate
        for (k = 0; k < K; k = k + 1) begin : rows
            wire signed [YW-1:0] at = top_row + k;
            wire signed [YW-1:0] place = $signed({1'b0, read_bank}) + at - $signed({1'b0, base_row});
            assign next_row_padded[k] = at < 0 || at >= H;
            wire [YW-1:0] wrapped = place >= BANKS ? place - BANKS : place;
            assign next_bank_of[k*BW +: BW] = wrapped[BW-1:0];
        end
    endgenerate

    // ---- reader: along a row ----
    reg [AW-1:0] read_at;
    reg [BEATW-1:0] beat;
    reg [XW-1:0] column;
    reg [$clog2(K+STRIDE+1)-1:0] until_window;  // columns before the present one completes a window
    wire go;                                    // the read pipeline moves
    wire in_map = column >= LEFT && column < LEFT + W;
    wire last_beat = beat == C - 1;
    wire row_end = last_beat && column == COLUMNS - 1;

    always @(posedge clk) begin
        if (rst) begin
            reading <= 1'b0;
            out_row <= 0;
            top_row <= -TOP;
            base_row <= 0;
            read_bank <= 0;
        end else if (!reading) begin
            if (release_row) begin
                base_row <= base_row + 1'b1;
                read_bank <= read_bank == BANKS - 1 ? 0 : read_bank + 1'b1;
            end else if (frame_done && !behind) begin
                out_row <= 0;
                top_row <= -TOP;
                base_row <= 0;
            end
            if (start) reading <= 1'b1;
            bank_of <= next_bank_of;
            row_padded <= next_row_padded;
            read_at <= 0;
            beat <= 0;
            column <= 0;
            until_window <= K - 1;
        end else if (go) begin
            beat <= last_beat ? 0 : beat + 1'b1;
            if (in_map) read_at <= read_at + 1'b1;
            if (last_beat) begin
                column <= column + 1'b1;
                until_window <= until_window == 0 ? STRIDE - 1 : until_window - 1'b1;
            end
            if (row_end) begin
                reading <= 1'b0;
                out_row <= out_row + 1'b1;
                top_row <= top_row + STRIDE;
            end
        end
    end

    // ---- row banks, read together ----
    wire [BANKS*BITS-1:0] read_words;
    generate
        for (bank = 0; bank < BANKS; bank = bank + 1) begin : banks
            wire mine = write && write_bank == bank;
            if (STYLE == "block") begin : block_ram
                (* ram_style = "block" *) reg [BITS-1:0] words [0:ROW-1];
                reg [BITS-1:0] q;
                always @(posedge clk) begin
                    if (mine) words[write_at] <= in_data[BITS-1:0];
                    if (go) q <= words[read_at];
                end
                assign read_words[bank*BITS +: BITS] = q;
            end else begin : lut_ram
                (* ram_style = "distributed" *) reg [BITS-1:0] words [0:ROW-1];
                reg [BITS-1:0] q;
                always @(posedge clk) begin
                    if (mine) words[write_at] <= in_data[BITS-1:0];
                    if (go) q <= words[read_at];
                end
                assign read_words[bank*BITS +: BITS] = q;
            end
        end
    endgenerate

    // One clock behind the address: whether there is a word, whether it is padding, whether it completes a window.
    reg q_valid, q_padded, q_last;
    reg [K*BW-1:0] q_bank_of;
    reg [K-1:0] q_row_padded;
    always @(posedge clk) begin
        if (rst) q_valid <= 1'b0;
        else if (go) q_valid <= reading;
        if (go) begin
            q_padded <= !in_map;
            q_last <= last_beat && until_window == 0;
            q_bank_of <= bank_of;
            q_row_padded <= row_padded;
        end
    end

    wire [K*BITS-1:0] column_words;
    generate
        for (k = 0; k < K; k = k + 1) begin : columns
            reg [BITS-1:0] chosen;
            integer each;
            always @* begin
                chosen = read_words[0 +: BITS];
                for (each = 1; each < BANKS; each = each + 1)
                    if (q_bank_of[k*BW +: BW] == each) chosen = read_words[each*BITS +: BITS];
                if (q_padded || q_row_padded[k]) chosen = PAD[BITS-1:0];
            end
            assign column_words[k*BITS +: BITS] = chosen;
        end
    endgenerate

    // ---- stage: a shift register of K * C words; `window` is its name at the moment a window is complete ----
    assign go = !(out_valid && !out_ready);
    always @(posedge clk) begin
        if (rst) out_valid <= 1'b0;
        else if (go) out_valid <= q_valid && q_last;
        if (go && q_valid) begin
            if (K * C == 1) window <= column_words;
            else window <= {column_words, window[K*K*C*BITS-1:K*BITS]};
        end
    end

endmodule

`default_nettype wire
