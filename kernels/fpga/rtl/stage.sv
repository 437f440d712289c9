// The window that an engine works on: columns of K integers come in, chunks of the window go out.
//
// A column word holds rows 0 .. K-1 of one channel, BITS each; words come channel by channel, column by column; `last`
// marks the word that completes a window. `window_valid` tells that a window waits; `take` makes it the present one.
// x is chunk `fold` of the present window, all K * K taps of CHANNELS = C / FOLDS channels: product (u * K + v) *
// CHANNELS + c is tap (u, v) of channel fold * CHANNELS + c. It appears LATENCY clocks after `fold`.
//
// STYLE "registers": a shift register of K * C words, a copy of it that is held, and a multiplexer; LATENCY 1.
// STYLE "distributed": LUT RAM, LATENCY 2. Column j is in memory j mod K, in its half (j / K) mod 2, so the K columns
// of the present window and K further ones have room, and no chunk is chosen from registers.
`default_nettype none

module edgemeta_stage #(
    parameter integer C = 4,
    parameter integer K = 3,
    parameter integer STRIDE = 1,
    parameter integer OUT_W = 8,
    parameter integer FOLDS = 1,
    parameter integer BITS = 8,
    parameter STYLE = "registers",
    // derived
    parameter integer CHANNELS = C / FOLDS,
    parameter integer FOLDW = FOLDS > 1 ? $clog2(FOLDS) : 1
) (
    input  wire                         clk,
    input  wire                         rst,
    input  wire [K*BITS-1:0]            column,
    input  wire                         column_valid,
    input  wire                         last,
    output wire                         go,           // the column is read
    output reg                          window_valid,
    input  wire                         take,
    input  wire [FOLDW-1:0]             fold,
    output reg  [K*K*CHANNELS*BITS-1:0] x
);

    genvar u, v, c, f, m;
    generate
        if (STYLE == "distributed") begin : lut_ram
            localparam integer STEP = K == 1 ? 1 : STRIDE;     // columns from window to window
            localparam integer SLOTW = $clog2(K + 1);
            localparam integer HELDW = $clog2(2 * K + 1);
            localparam integer SUBW = CHANNELS > 1 ? $clog2(CHANNELS) : 1;
            localparam integer PIXELW = OUT_W > 1 ? $clog2(OUT_W) : 1;

            // ---- writer ----
            reg full;                                  // one clock late in falling: `freed` is
            reg [SLOTW-1:0] to_slot;
            reg to_half;
            reg [FOLDW-1:0] to_fold;
            reg [SUBW-1:0] to_sub;
            wire write = column_valid && !full;
            wire next_fold = to_sub == CHANNELS - 1;
            wire column_done = write && next_fold && to_fold == FOLDS - 1;
            assign go = !full;

            // ---- reader: the present window begins in memory `slot`; before the first K columns count as held ----
            reg [SLOTW-1:0] slot, slot_q;
            reg half;
            reg [K-1:0] halves;                        // of each memory
            reg ends_row, taken;
            reg [HELDW-1:0] freed;
            reg [PIXELW-1:0] pixel;                    // of the window that is taken next
            reg [HELDW-1:0] held;                      // columns
            reg [HELDW-1:0] windows;                   // that wait
            wire wraps = slot + STEP >= K;
            wire [SLOTW-1:0] next_slot = ends_row ? slot : wraps ? slot + STEP - K : slot + STEP;
            wire next_half = half ^ (ends_row || wraps);
            wire [HELDW-1:0] held_next = held + column_done - (taken ? freed : {HELDW{1'b0}});
            wire complete = write && last;

            always @(posedge clk) begin
                if (rst) begin
                    full <= 1'b0;
                    {to_slot, to_half, to_fold, to_sub} <= 0;
                    slot <= 0;
                    half <= 1'b1;
                    ends_row <= 1'b1;
                    taken <= 1'b0;
                    pixel <= 0;
                    held <= K;
                    windows <= 0;
                    window_valid <= 1'b0;
                end else begin
                    if (write) begin
                        to_sub <= next_fold ? 0 : to_sub + 1'b1;
                        if (next_fold) to_fold <= column_done ? 0 : to_fold + 1'b1;
                        if (column_done) to_slot <= to_slot == K - 1 ? 0 : to_slot + 1'b1;
                        if (column_done && to_slot == K - 1) to_half <= !to_half;
                    end
                    taken <= take;
                    held <= held_next;
                    full <= held_next == 2 * K;
                    windows <= windows + complete - take;
                    window_valid <= complete || windows > 1 || (windows == 1 && !take);
                    if (take) begin
                        slot <= next_slot;
                        half <= next_half;
                        ends_row <= pixel == OUT_W - 1;
                        pixel <= pixel == OUT_W - 1 ? 0 : pixel + 1'b1;
                    end
                end
                freed <= ends_row ? K : STEP;
                slot_q <= slot;
            end

            wire [K*CHANNELS*K*BITS-1:0] read;         // memory m, channel c of the chunk, row u
            for (m = 0; m < K; m = m + 1) begin : memories
                always @(posedge clk) if (take) halves[m] <= next_half ^ (m < next_slot);
                for (c = 0; c < CHANNELS; c = c + 1) begin : channels
                    (* ram_style = "distributed" *) reg [K*BITS-1:0] words [0:(2<<FOLDW)-1];
                    reg [K*BITS-1:0] q;
                    always @(posedge clk) begin
                        if (write && to_slot == m && to_sub == c) words[{to_half, to_fold}] <= column;
                        q <= words[{halves[m], fold}];
                    end
                    assign read[(m*CHANNELS+c)*K*BITS +: K*BITS] = q;
                end
            end
            for (u = 0; u < K; u = u + 1) begin : row
                for (v = 0; v < K; v = v + 1) begin : columns
                    for (c = 0; c < CHANNELS; c = c + 1) begin : channel
                        reg [BITS-1:0] chosen;
                        integer each;
                        always @* begin
                            chosen = read[((v % K)*CHANNELS+c)*K*BITS + u*BITS +: BITS];
                            for (each = 1; each < K; each = each + 1)
                                if (slot_q == each)
                                    chosen = read[(((each+v) % K)*CHANNELS+c)*K*BITS + u*BITS +: BITS];
                        end
                        always @(posedge clk) x[((u*K+v)*CHANNELS+c)*BITS +: BITS] <= chosen;
                    end
                end
            end
        end else begin : registers
            // Element (row u, column v, channel c) is at (v * C + c) * K + u.
            localparam integer FOLDS2 = 1 << (FOLDS > 1 ? $clog2(FOLDS) : 0);
            reg [K*K*C*BITS-1:0] window, held;
            assign go = !(window_valid && !take);
            always @(posedge clk) begin
                if (rst) window_valid <= 1'b0;
                else if (go) window_valid <= column_valid && last;
                if (go && column_valid) begin
                    if (K * C == 1) window <= column;
                    else window <= {column, window[K*K*C*BITS-1:K*BITS]};
                end
                if (take) held <= window;
            end
            for (u = 0; u < K; u = u + 1) begin : row
                for (v = 0; v < K; v = v + 1) begin : columns
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
        end
    endgenerate

endmodule

`default_nettype wire
