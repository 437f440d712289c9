// One stream to two readers. Each word goes to both; a reader that is ready early takes its copy early.
`default_nettype none

module edgemeta_fork #(
    parameter integer WIDTH = 8
) (
    input  wire             clk,
    input  wire             rst,
    input  wire [WIDTH-1:0] in_data,
    input  wire             in_valid,
    output wire             in_ready,
    output wire [WIDTH-1:0] a_data,
    output wire             a_valid,
    input  wire             a_ready,
    output wire [WIDTH-1:0] b_data,
    output wire             b_valid,
    input  wire             b_ready
);

    reg a_done, b_done;  // this reader already has the present word

    assign a_data = in_data;
    assign b_data = in_data;
    assign a_valid = in_valid && !a_done;
    assign b_valid = in_valid && !b_done;
    assign in_ready = (a_ready || a_done) && (b_ready || b_done);

    always @(posedge clk) begin
        if (rst) begin
            a_done <= 1'b0;
            b_done <= 1'b0;
        end else if (in_valid) begin
            a_done <= !in_ready && (a_done || a_ready);
            b_done <= !in_ready && (b_done || b_ready);
        end
    end

endmodule

`default_nettype wire
