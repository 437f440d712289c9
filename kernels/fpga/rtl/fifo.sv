// A stream FIFO of DEPTH words and one more in the output register. STYLE: "block" or "distributed" RAM.
//
// A word that is taken in appears two clocks later; from then on one word leaves per clock.
`default_nettype none

module edgemeta_fifo #(
    parameter integer WIDTH = 8,
    parameter integer DEPTH = 32,
    parameter STYLE = "distributed"
) (
    input  wire             clk,
    input  wire             rst,
    input  wire [WIDTH-1:0] in_data,
    input  wire             in_valid,
    output wire             in_ready,
    output reg  [WIDTH-1:0] out_data,
    output reg              out_valid,
    input  wire             out_ready
);

    localparam integer ADDRESS = DEPTH > 1 ? $clog2(DEPTH) : 1;
    localparam integer COUNT = $clog2(DEPTH + 1);

    reg [ADDRESS-1:0] write_at, read_at;
    reg [COUNT-1:0] count;
    reg full, filled;                       // count == DEPTH, count != 0

    assign in_ready = !full;
    wire take = in_valid && !full;
    wire fetch = filled && (!out_valid || out_ready);

    generate
        if (STYLE == "block") begin : block_ram
            (* ram_style = "block" *) reg [WIDTH-1:0] words [0:DEPTH-1];
            always @(posedge clk) begin
                if (take) words[write_at] <= in_data;
                if (fetch) out_data <= words[read_at];
            end
        end else begin : lut_ram
            (* ram_style = "distributed" *) reg [WIDTH-1:0] words [0:DEPTH-1];
            always @(posedge clk) begin
                if (take) words[write_at] <= in_data;
                if (fetch) out_data <= words[read_at];
            end
        end
    endgenerate

    always @(posedge clk) begin
        if (rst) begin
            write_at <= 0;
            read_at <= 0;
            count <= 0;
            full <= 1'b0;
            filled <= 1'b0;
            out_valid <= 0;
        end else begin
            if (take) write_at <= write_at == DEPTH - 1 ? 0 : write_at + 1'b1;
            if (fetch) read_at <= read_at == DEPTH - 1 ? 0 : read_at + 1'b1;
            if (take && !fetch) count <= count + 1'b1;
            if (fetch && !take) count <= count - 1'b1;
            if (take != fetch) begin
                full <= take && count == DEPTH - 1;
                filled <= take || count != 1;
            end
            if (fetch) out_valid <= 1'b1;
            else if (out_ready) out_valid <= 1'b0;
        end
    end

endmodule

`default_nettype wire
