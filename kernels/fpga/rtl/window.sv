// Line buffer: a stream of pixels becomes a stream of the columns of windows, with padding.
//
// The input is H x W x C integers, channel by channel, 8 bits each. Row banks (K + STRIDE of them, a ring) let the
// writer run ahead of the reader, which gives columns of K integers, as stage.sv takes them; a kernel of 1 x 1 leaves
// out those that no window holds. OUT_H is the most that the stride allows: fewer than K + STRIDE rows are left over.
// Padding above TOP and left LEFT; below and right as far as OUT_H and OUT_W demand. PAD: the integer in the padding.
// A row of windows takes ((OUT_W - 1) * STRIDE + K) * C clocks and 3 between rows.
// Flags are computed a step ahead and row counters settle while the row before is read: no long path in one clock.
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
    input  wire              clk,
    input  wire              rst,
    input  wire [7:0]        in_data,
    input  wire              in_valid,
    output wire              in_ready,
    output wire [K*BITS-1:0] column,
    output reg               column_valid,
    output reg               last,         // this word completes a window
    input  wire              go            // the read pipeline moves
);

    localparam integer ROW = W * C;                        // words per row
    localparam integer BANKS = K + STRIDE;
    localparam integer COLUMNS = (OUT_W - 1) * STRIDE + K; // that a row of windows covers, padding included
    localparam integer LAST_TOP = (OUT_H - 1) * STRIDE - TOP;
    localparam integer AW = ROW > 1 ? $clog2(ROW) : 1;
    localparam integer BW = $clog2(BANKS + 1);
    localparam integer BEATW = C > 1 ? $clog2(C) : 1;
    localparam integer XW = $clog2(COLUMNS + 1);
    localparam integer YW = $clog2(H + K + TOP + 1) + 1;
    localparam integer KW = $clog2(K + STRIDE + TOP + 1);
    localparam [BW-1:0] NONE = {BW{1'b1}};                 // no bank: padding

    genvar bank, k;

    // ---- writer ----
    reg [AW-1:0] write_at;
    reg last_word, full;
    reg [BW-1:0] write_bank, read_bank, filled;
    reg [BW-1:0] surplus, needed;          // rows to release before the next row of windows, rows that it needs then
    wire release_rows;
    wire write = in_valid && !full;
    wire row_written = write && last_word;
    wire [BW-1:0] filled_next = filled + row_written - (release_rows ? surplus : {BW{1'b0}});
    assign in_ready = !full;

    always @(posedge clk) begin
        if (rst) begin
            write_at <= 0;
            last_word <= ROW == 1;
            full <= 1'b0;
            write_bank <= 0;
            filled <= 0;
        end else begin
            if (write) begin
                write_at <= last_word ? 0 : write_at + 1'b1;
                last_word <= ROW == 1 || (!last_word && write_at == ROW - 2);
            end
            if (row_written) write_bank <= write_bank == BANKS - 1 ? 0 : write_bank + 1'b1;
            filled <= filled_next;
            full <= filled_next == BANKS;
        end
    end

    // ---- reader, between rows: release the rows that no window needs any more, wait for those that it needs ----
    localparam [1:0] RELEASE = 0, SETTLE = 1, START = 2, READ = 3;
    reg [1:0] phase;                       // moves with the read pipeline: the last row has left it at START
    reg signed [YW-1:0] top_row;           // uppermost row of the next row of windows, negative in the padding
    reg wraps;                             // that is the first of another image
    reg [KW-1:0] above, below;             // its rows in the padding
    reg [KW-1:0] above_before;             // of the row before
    reg [2:0] settled;                     // the registers below follow top_row step by step
    reg released, have_rows;
    assign release_rows = phase == RELEASE && go && settled[2] && released;
    wire start = phase == START && go && have_rows;
    wire [BW:0] ahead = read_bank + surplus;

    always @(posedge clk) begin
        above <= top_row < 0 ? -top_row : 0;
        below <= top_row > H - K ? top_row - (H - K) : 0;
        // The oldest row in the ring is the first in the map of the row of windows before.
        surplus <= (wraps ? H - LAST_TOP : STRIDE + above) - above_before;
        needed <= K - above - below;
        released <= filled >= surplus;
        have_rows <= filled >= needed;
    end

    reg [K*BW-1:0] bank_of;                // of each row of the window
    wire [K*BW-1:0] next_bank_of;
    generate
        for (k = 0; k < K; k = k + 1) begin : rows
            wire [BW:0] place = read_bank + (k - above);
            assign next_bank_of[k*BW +: BW] =
                k < above || k >= K - below ? NONE : place >= BANKS ? place - BANKS : place;
        end
    endgenerate

    // ---- reader: along a row ----
    reg [AW-1:0] read_at;
    reg [BEATW-1:0] beat;
    reg [XW-1:0] at_column;
    reg in_map, last_beat, last_column;
    reg [$clog2(K+STRIDE+1)-1:0] until_window;  // columns before the present one completes a window
    wire reading = phase == READ;

    always @(posedge clk) begin
        if (rst) begin
            phase <= RELEASE;
            top_row <= -TOP;
            wraps <= 1'b0;
            above_before <= STRIDE + TOP;  // no row is to be released before the first
            read_bank <= 0;
            settled <= 0;
        end else begin
            settled <= {settled[1:0], 1'b1};
            if (release_rows) begin
                phase <= SETTLE;
                read_bank <= ahead >= BANKS ? ahead - BANKS : ahead;
            end
            if (phase == SETTLE && go) phase <= START;
            if (start) begin
                phase <= READ;
                settled <= 0;
                above_before <= above;
                wraps <= top_row == LAST_TOP;
                top_row <= top_row == LAST_TOP ? -TOP : top_row + STRIDE;
            end
            if (reading && go && last_beat && last_column) phase <= RELEASE;
        end
        if (start) bank_of <= next_bank_of;
        if (!reading) begin
            read_at <= 0;
            beat <= 0;
            last_beat <= C == 1;
            at_column <= 0;
            in_map <= LEFT == 0;
            last_column <= COLUMNS == 1;
            until_window <= K - 1;
        end else if (go) begin
            beat <= last_beat ? 0 : beat + 1'b1;
            last_beat <= C == 1 || (!last_beat && beat == C - 2);
            if (in_map) read_at <= read_at + 1'b1;
            if (last_beat) begin
                at_column <= at_column + 1'b1;
                in_map <= at_column + 1 >= LEFT && at_column + 1 < LEFT + W;
                last_column <= at_column == COLUMNS - 2;
                until_window <= until_window == 0 ? STRIDE - 1 : until_window - 1'b1;
            end
        end
    end

    // ---- row banks, read together ----
    wire [BANKS*BITS-1:0] read_words;
    wire [BANKS-1:0] mine;
    generate
        for (bank = 0; bank < BANKS; bank = bank + 1) begin : enables
            assign mine[bank] = write && write_bank == bank;
        end
        if (STYLE == "block") begin : block_ram
            // One memory with an enable for each bank's byte. A bank that is being written is never chosen.
            (* ram_style = "block" *) reg [BANKS*8-1:0] words [0:ROW-1];
            reg [BANKS*8-1:0] q;
            integer each_bank;
            always @(posedge clk) begin
                for (each_bank = 0; each_bank < BANKS; each_bank = each_bank + 1)
                    if (mine[each_bank]) words[write_at][each_bank*8 +: 8] <= in_data;
                if (go) q <= words[read_at];
            end
            for (bank = 0; bank < BANKS; bank = bank + 1) begin : banks
                assign read_words[bank*BITS +: BITS] = q[bank*8 +: BITS];
            end
        end else begin : lut_ram
            for (bank = 0; bank < BANKS; bank = bank + 1) begin : banks
                (* ram_style = "distributed" *) reg [BITS-1:0] words [0:ROW-1];
                reg [BITS-1:0] q;
                always @(posedge clk) begin
                    if (mine[bank]) words[write_at] <= in_data[BITS-1:0];
                    if (go) q <= words[read_at];
                end
                assign read_words[bank*BITS +: BITS] = q;
            end
        end
    endgenerate

    // One clock behind the address: whether there is a word, whether it is padding, whether it completes a window. A
    // clock later the words are behind a register, and the banks of the rows are chosen.
    reg q_valid, q_padded, q_last;
    reg [K*BW-1:0] chosen;
    reg [BANKS*BITS-1:0] words_q;
    always @(posedge clk) begin
        if (rst) {q_valid, column_valid} <= 2'b00;
        else if (go) {q_valid, column_valid} <= {reading && (K > 1 || until_window == 0), q_valid};
        if (go) begin
            q_padded <= !in_map;
            q_last <= last_beat && until_window == 0;
            chosen <= q_padded ? {K{NONE}} : bank_of;
            words_q <= read_words;
            last <= q_last;
        end
    end

    wire [(1<<BW)*BITS-1:0] choices = {{((1<<BW)-BANKS){PAD[BITS-1:0]}}, words_q};
    generate
        for (k = 0; k < K; k = k + 1) begin : columns
            assign column[k*BITS +: BITS] = choices[chosen[k*BW +: BW]*BITS +: BITS];
        end
    endgenerate

endmodule

`default_nettype wire
