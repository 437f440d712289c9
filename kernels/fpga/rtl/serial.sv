// Images and logits of a network over an asynchronous line, in frames; numbers are little endian:
//
//   "EDG", kind | number (1) | length (4) | payload | CRC-32 of number, length and payload
//
//   from the host   "?" hello: resets the network and counts images from 0; the number comes back in the answer
//                   "I" image: IN_WORDS bytes; the number is that of the image
//   to the host     "!" answer to a hello: version 1 (1), CREDITS (1), bytes of an image (4) and of its logits (4),
//                       SHA-256 of the model file (32)
//                   "A" answer to the image of this number: logits, OUT_WORDS of OUT bits
//                   "N" a frame was refused; the number is that of the image expected next
//
// CRCs of "I" and "A" start from the inverted first word of the digest, as if they covered it, those of others from all
// ones: a frame for another model is a damaged one. An image is given to the network when it is there as a whole, and
// right; the host may send it while fewer than CREDITS images are without an answer, as it has room then. No time
// limits a frame: one that lost bytes ends with whatever follows, is refused, and the search for the next "EDG" begins.
`default_nettype none

module edgemeta_serial #(
    parameter [255:0] DIGEST = 256'd0,       // word 0 in the low bits
    parameter integer IN_WORDS = 1,
    parameter integer OUT_WORDS = 1,
    parameter integer OUT = 32,              // bits of an output word: 8 or 32
    parameter integer CREDITS = 2,           // images that may be without an answer: their room is block RAM
    parameter integer DIVIDER = 20
) (
    input  wire           clk,
    input  wire           rst,
    input  wire           rx,
    output wire           tx,
    output reg            network_rst,
    output reg  [7:0]     in_data,           // to the network
    output reg            in_valid,
    input  wire           in_ready,
    input  wire [OUT-1:0] out_data,          // from the network
    input  wire           out_valid,
    output wire           out_ready
);

    localparam [31:0] SYNC_E = "E", SYNC_D = "D", SYNC_G = "G", HELLO = "?", IMAGE = "I";
    localparam [31:0] ONES = 32'hffffffff, SEED = ~DIGEST[31:0], RESIDUE = 32'hdebb20e3;
    localparam [31:0] IN_BYTES = IN_WORDS, OUT_BYTES = OUT_WORDS * (OUT / 8);
    localparam [7:0] MOST = CREDITS[7:0];

    // Room of the images that are without an answer
    localparam integer PLACE = $clog2(CREDITS * IN_WORDS > 1 ? CREDITS * IN_WORDS : 2);
    (* ram_style = "block" *) reg [7:0] room [0:(1<<PLACE)-1];
    reg [PLACE-1:0] write_at, whole_at, read_at;
    reg [7:0] received, answered;            // images, of which an answer is sent
    wire [7:0] waiting = received - answered;

    // From the host
    localparam integer LEFT = $clog2(IN_WORDS + 9);
    wire [7:0] data;
    wire bit_valid, byte_valid;
    wire [31:0] sum;
    reg [1:0] found;                         // bytes of "EDG"
    reg framed, is_image, wrong, ended;
    reg [2:0] head;                          // 0 number, 1 to 4 length, 5 done
    reg [LEFT-1:0] left;                     // bytes after the present one
    reg [7:0] hello;                         // its number
    wire kind = byte_valid && !framed && found == 2'd3 && (data == HELLO[7:0] || data == IMAGE[7:0]);
    wire is_payload = head == 3'd5 && left > 3;
    reg [7:0] expected;
    always @* begin
        case (head)
            3'd1: expected = IN_BYTES[7:0];
            3'd2: expected = IN_BYTES[15:8];
            3'd3: expected = IN_BYTES[23:16];
            3'd4: expected = IN_BYTES[31:24];
            default: expected = received;
        endcase
        if (!is_image) expected = head == 3'd0 ? data : 8'd0;
    end
    wire is_good = !wrong && sum == RESIDUE;
    wire is_hello = ended && is_good && !is_image;

    edgemeta_uart_rx #(.DIVIDER(DIVIDER)) receiver (
        .clk(clk), .rst(rst), .rx(rx), .data(data), .bit_valid(bit_valid), .byte_valid(byte_valid));
    edgemeta_crc32 received_sum (
        .clk(clk), .start(kind), .value(data == IMAGE[7:0] ? SEED : ONES), .next(bit_valid), .next_bit(data[7]),
        .drop(1'b0), .crc(sum));

    reg [2:0] resetting;
    wire reset = rst || resetting != 0;

    always @(posedge clk) begin
        ended <= 1'b0;
        if (rst) begin
            framed <= 1'b0;
            found <= 2'd0;
        end else if (byte_valid) begin
            if (!framed) begin
                if (data == SYNC_E[7:0]) found <= 2'd1;
                else if (found == 2'd1 && data == SYNC_D[7:0]) found <= 2'd2;
                else if (found == 2'd2 && data == SYNC_G[7:0]) found <= 2'd3;
                else found <= 2'd0;
                framed <= kind;
                is_image <= data == IMAGE[7:0];
                left <= data == IMAGE[7:0] ? IN_WORDS + 8 : 8;
                head <= 3'd0;
                wrong <= data == IMAGE[7:0] && waiting >= MOST;
            end else begin
                left <= left - 1'b1;
                if (head != 3'd5) begin
                    head <= head + 1'b1;
                    if (data != expected) wrong <= 1'b1;
                end
                if (head == 3'd0) hello <= data;
                if (left == 0) begin
                    framed <= 1'b0;
                    ended <= 1'b1;
                end
            end
        end
    end

    // To the network. A frame that is refused leaves the place where the next image is written as it was.
    wire store = byte_valid && framed && is_payload && !wrong;
    wire fetch = read_at != whole_at && (!in_valid || in_ready);

    always @(posedge clk) begin
        if (store) room[write_at] <= data;
        if (fetch) in_data <= room[read_at];
    end

    always @(posedge clk) begin
        network_rst <= reset;
        if (rst || is_hello) resetting <= 3'd7;
        else if (resetting != 0) resetting <= resetting - 1'b1;
        if (reset) begin
            write_at <= 0;
            whole_at <= 0;
            read_at <= 0;
            in_valid <= 1'b0;
            received <= 8'd0;
        end else begin
            if (store) write_at <= write_at + 1'b1;
            if (ended && is_image) begin
                if (is_good) begin
                    whole_at <= write_at;
                    received <= received + 1'b1;
                end else write_at <= whole_at;
            end
            if (fetch) read_at <= read_at + 1'b1;
            if (fetch) in_valid <= 1'b1;
            else if (in_ready) in_valid <= 1'b0;
        end
    end

    // To the host
    localparam [1:0] GREETING = 2'd0, ANSWER = 2'd1, REFUSAL = 2'd2;
    localparam integer GREETING_BYTES = 42;
    localparam [8*GREETING_BYTES-1:0] GREETING_TEXT = {DIGEST, OUT_BYTES, IN_BYTES, MOST, 8'd1};
    localparam [1:0] HEAD = 2'd0, PAYLOAD = 2'd1, SUM = 2'd2;
    localparam integer MOST_BYTES = OUT_WORDS * 4 > GREETING_BYTES ? OUT_WORDS * 4 : GREETING_BYTES;
    localparam integer AT = $clog2(MOST_BYTES);
    reg greets, refuses, sends, covered;
    reg [1:0] frame, part;
    reg [AT-1:0] at;                         // byte of the part
    wire [31:0] out_sum;
    wire send_ready, sent_bit, sent_value;
    wire [31:0] length = frame == GREETING ? GREETING_BYTES : frame == ANSWER ? OUT_BYTES : 32'd0;
    wire [7:0] number = frame == GREETING ? hello : frame == ANSWER ? answered : received;
    wire [7:0] letter = frame == GREETING ? "!" : frame == ANSWER ? "A" : "N";
    wire [7:0] greeting = GREETING_TEXT[8*at +: 8];
    wire [7:0] logit;
    wire is_last_of_word;
    generate
        if (OUT == 32) begin : words
            assign logit = out_data[8*at[1:0] +: 8];
            assign is_last_of_word = at[1:0] == 2'd3;
        end else begin : bytes
            assign logit = out_data;
            assign is_last_of_word = 1'b1;
        end
    endgenerate
    reg [7:0] head_byte, send_data;
    always @* begin
        case (at[3:0])
            4'd0: head_byte = SYNC_E[7:0];
            4'd1: head_byte = SYNC_D[7:0];
            4'd2: head_byte = SYNC_G[7:0];
            4'd3: head_byte = letter;
            4'd4: head_byte = number;
            4'd5: head_byte = length[7:0];
            4'd6: head_byte = length[15:8];
            4'd7: head_byte = length[23:16];
            default: head_byte = length[31:24];
        endcase
        case (part)
            HEAD: send_data = head_byte;
            PAYLOAD: send_data = frame == GREETING ? greeting : logit;
            default: send_data = ~out_sum[7:0];
        endcase
    end
    wire is_logit = sends && part == PAYLOAD && frame == ANSWER;
    wire send = sends && send_ready && (!is_logit || out_valid);
    assign out_ready = is_logit && send_ready && is_last_of_word;
    wire is_number = part == HEAD && at == 4;
    wire is_end = part == HEAD ? at == 8 : part == SUM ? at == 3 : at == length[AT-1:0] - 1'b1;

    edgemeta_uart_tx #(.DIVIDER(DIVIDER)) transmitter (
        .clk(clk), .rst(rst), .data(send_data), .valid(send), .ready(send_ready), .bit_valid(sent_bit),
        .bit_value(sent_value), .tx(tx));
    edgemeta_crc32 sent_sum (
        .clk(clk), .start(send && is_number), .value(frame == ANSWER ? SEED : ONES), .next(sent_bit && covered),
        .next_bit(sent_value), .drop(send && part == SUM), .crc(out_sum));

    always @(posedge clk) begin
        if (rst) begin
            greets <= 1'b0;
            refuses <= 1'b0;
        end else begin
            if (is_hello) greets <= 1'b1;
            else if (!sends && !reset) greets <= 1'b0;
            if (is_hello) refuses <= 1'b0;   // of what came before it
            else if (ended && !is_good) refuses <= 1'b1;
            else if (!sends && !reset && !greets) refuses <= 1'b0;
        end
        if (reset) begin
            sends <= 1'b0;
            covered <= 1'b0;
            answered <= 8'd0;
        end else if (!sends) begin
            sends <= greets || refuses || out_valid;
            frame <= greets ? GREETING : refuses ? REFUSAL : ANSWER;
            part <= HEAD;
            at <= 0;
        end else if (send) begin
            at <= is_end ? 0 : at + 1'b1;
            if (is_number) covered <= 1'b1;
            if (part == SUM) covered <= 1'b0;
            if (is_end) begin
                if (part == HEAD) part <= frame == REFUSAL ? SUM : PAYLOAD;
                if (part == PAYLOAD) part <= SUM;
                if (part == SUM) begin
                    sends <= 1'b0;
                    if (frame == ANSWER) answered <= answered + 1'b1;
                end
            end
        end
    end

endmodule

`default_nettype wire
