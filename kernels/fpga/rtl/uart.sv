// Receiver and transmitter of an asynchronous line, 8N1: start bit 0, eight bits, lowest first, stop bit 1.
`default_nettype none

// The stop bit is not judged: a byte that noise has damaged is still a byte, and the frame's CRC tells.
module edgemeta_uart_rx #(
    parameter integer DIVIDER = 20    // at least 4; 2 of the very same clock
) (
    input  wire       clk,
    input  wire       rst,
    input  wire       rx,
    output reg  [7:0] data,
    output reg        bit_valid,             // data[7] is the next bit
    output reg        byte_valid             // data is a byte
);

    localparam integer COUNT = $clog2(DIVIDER);
    reg [1:0] line;                          // of an input without a clock
    reg [COUNT-1:0] count;
    reg [3:0] at;                            // 0 start bit, 1 to 8, 9 stop bit
    reg busy;

    always @(posedge clk) begin
        line <= {rx, line[1]};
        bit_valid <= 1'b0;
        byte_valid <= 1'b0;
        if (rst) busy <= 1'b0;
        else if (!busy) begin
            busy <= !line[0];
            at <= 4'd0;
            count <= DIVIDER / 2 - 1;
        end else if (count != 0) count <= count - 1'b1;
        else begin
            count <= DIVIDER - 1;
            at <= at + 1'b1;
            if (at == 4'd0) busy <= !line[0];
            else if (at == 4'd9) begin
                busy <= 1'b0;
                byte_valid <= 1'b1;
            end else begin
                data <= {line[0], data[7:1]};
                bit_valid <= 1'b1;
            end
        end
    end

endmodule

module edgemeta_uart_tx #(
    parameter integer DIVIDER = 20
) (
    input  wire       clk,
    input  wire       rst,
    input  wire [7:0] data,
    input  wire       valid,
    output wire       ready,
    output wire       bit_valid,             // bit_value is sent next
    output wire       bit_value,
    output reg        tx
);

    localparam integer COUNT = $clog2(DIVIDER);
    reg [COUNT-1:0] count;
    reg [3:0] left;                          // bits after the present one, the stop bit included
    reg [8:0] bits;
    assign ready = count == 0 && left == 0;
    assign bit_valid = count == 0 && left > 4'd1;
    assign bit_value = bits[0];

    always @(posedge clk) begin
        if (rst) begin
            tx <= 1'b1;
            count <= 0;
            left <= 4'd0;
        end else if (count != 0) count <= count - 1'b1;
        else if (left != 0 || valid) begin
            count <= DIVIDER - 1;
            left <= left != 0 ? left - 1'b1 : 4'd9;
            bits <= left != 0 ? {1'b1, bits[8:1]} : {1'b1, data};
            tx <= left != 0 && bits[0];
        end
    end

endmodule

// CRC-32 of IEEE 802.3, a bit at a time, lowest first: `crc` is inverted when it is sent.
module edgemeta_crc32 (
    input  wire        clk,
    input  wire        start,                // with this value
    input  wire [31:0] value,
    input  wire        next,                 // the sum goes on by one bit
    input  wire        next_bit,
    input  wire        drop,                 // the lowest byte has been sent
    output reg  [31:0] crc
);

    always @(posedge clk) begin
        if (start) crc <= value;
        else if (drop) crc <= crc >> 8;
        else if (next) crc <= {1'b0, crc[31:1]} ^ (crc[0] ^ next_bit ? 32'hedb88320 : 32'd0);
    end

endmodule

`default_nettype wire
