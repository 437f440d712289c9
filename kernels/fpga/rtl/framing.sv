// Counts the words of a stream: tells where an image ends, and compares that with tlast.
`default_nettype none

module edgemeta_framing #(
    parameter integer WORDS = 1
) (
    input  wire clk,
    input  wire rst,
    input  wire word,        // a word is transferred
    input  wire tlast,       // with this tlast
    output wire last,        // the present word ends an image
    output wire done,
    output wire early,
    output wire missing
);

    reg [(WORDS > 1 ? $clog2(WORDS) : 1)-1:0] at;
    assign last = at == WORDS - 1;
    assign done = word && last;
    assign early = word && tlast && !last;
    assign missing = word && last && !tlast;

    always @(posedge clk) begin
        if (rst) at <= 0;
        else if (word) at <= last ? 0 : at + 1'b1;
    end

endmodule

`default_nettype wire
