// The network as an accelerator: AXI4-Stream in and out, AXI4-Lite registers, and the shift register through which
// memories are loaded. The generator of networks sets the parameters. 32-bit registers:
//
//   0x00 identity, 0x4d474445 ("EDGM")      0x20 input words per image
//   0x04 version of this map, 1             0x24 output words per image
//   0x08 control: write 1 to reset          0x28 interrupt: bit 0 an image is done (write 1 clears), bit 8 enable
//   0x0c errors, write 1 clears: bit 0      0x40 .. 0x5c SHA-256 of the model file, first bytes first, each word
//        tlast early, bit 1 tlast missing        little endian; writable, as the memories are
//   0x10 images read                        0x60 load data: words of a memory word, highest first
//   0x14 images written                     0x64 load commit: memory number << 16 | row; writes the word
//   0x18 cycles, low word (latches high)    0x1c cycles, high word
//
// One transfer at a time; every address answers OKAY. A reset of the network lasts 8 clocks.
`default_nettype none

module edgemeta_accelerator #(
    parameter [255:0] DIGEST = 256'd0,       // word 0 in the low bits
    parameter integer IN_WORDS = 1,
    parameter integer OUT_WORDS = 1,
    parameter integer OUT = 32,              // bits of an output word
    parameter integer LOAD = 32              // of the widest memory word, in whole registers
) (
    input  wire            aclk,
    input  wire            aresetn,
    input  wire [7:0]      s_axis_tdata,
    input  wire            s_axis_tvalid,
    output wire            s_axis_tready,
    input  wire            s_axis_tlast,
    output wire [OUT-1:0]  m_axis_tdata,
    output wire            m_axis_tvalid,
    input  wire            m_axis_tready,
    output wire            m_axis_tlast,
    input  wire [6:0]      s_axil_awaddr,
    input  wire            s_axil_awvalid,
    output wire            s_axil_awready,
    input  wire [31:0]     s_axil_wdata,
    input  wire            s_axil_wvalid,
    output wire            s_axil_wready,
    output wire [1:0]      s_axil_bresp,
    output reg             s_axil_bvalid,
    input  wire            s_axil_bready,
    input  wire [6:0]      s_axil_araddr,
    input  wire            s_axil_arvalid,
    output wire            s_axil_arready,
    output reg  [31:0]     s_axil_rdata,
    output wire [1:0]      s_axil_rresp,
    output reg             s_axil_rvalid,
    input  wire            s_axil_rready,
    output wire            interrupt
);

    reg [3:0] resetting;
    wire rst = !aresetn || resetting != 0;
    reg load_valid;
    reg [15:0] load_memory, load_row;
    reg [LOAD-1:0] load_word;
    wire in_done, out_done;                  // an image's last word is read, and written
    wire tlast_early, tlast_missing, ready, valid;
    assign s_axis_tready = ready && !rst;
    assign m_axis_tvalid = valid && !rst;

    edgemeta_framing #(.WORDS(IN_WORDS)) in_framing (
        .clk(aclk), .rst(rst), .word(s_axis_tvalid && s_axis_tready), .tlast(s_axis_tlast),
        .last(), .done(in_done), .early(tlast_early), .missing(tlast_missing));
    edgemeta_framing #(.WORDS(OUT_WORDS)) out_framing (
        .clk(aclk), .rst(rst), .word(m_axis_tvalid && m_axis_tready), .tlast(1'b0),
        .last(m_axis_tlast), .done(out_done), .early(), .missing());
    edgemeta_network network (
        .clk(aclk), .rst(rst), .in_data(s_axis_tdata), .in_valid(s_axis_tvalid && !rst), .in_ready(ready),
        .out_data(m_axis_tdata), .out_valid(valid), .out_ready(m_axis_tready && !rst),
        .load_valid(load_valid), .load_memory(load_memory), .load_row(load_row), .load_word(load_word));

    wire write = s_axil_awvalid && s_axil_wvalid && !s_axil_bvalid;
    wire read = s_axil_arvalid && !s_axil_rvalid;
    wire [4:0] to = s_axil_awaddr[6:2];
    wire [4:0] from = s_axil_araddr[6:2];
    assign s_axil_awready = write;
    assign s_axil_wready = write;
    assign s_axil_arready = read;
    assign s_axil_bresp = 2'b00;
    assign s_axil_rresp = 2'b00;

    reg [31:0] frames_in, frames_out, cycles_high;
    reg [63:0] cycles;
    reg [1:0] errors;
    reg pending, enable;
    reg [255:0] digest;
    assign interrupt = pending && enable;

    initial digest = DIGEST;

    always @(posedge aclk) begin
        load_valid <= 1'b0;
        if (!aresetn) begin
            s_axil_bvalid <= 1'b0;
            s_axil_rvalid <= 1'b0;
            resetting <= 4'd8;
            frames_in <= 0;
            frames_out <= 0;
            cycles <= 0;
            errors <= 0;
            pending <= 1'b0;
            enable <= 1'b0;
        end else begin
            cycles <= cycles + 1'b1;
            if (resetting != 0) resetting <= resetting - 1'b1;
            if (in_done) frames_in <= frames_in + 1'b1;
            if (out_done) frames_out <= frames_out + 1'b1;
            if (s_axil_bready) s_axil_bvalid <= 1'b0;
            if (s_axil_rready) s_axil_rvalid <= 1'b0;
            if (write) begin
                s_axil_bvalid <= 1'b1;
                case (to)
                    5'h02: if (s_axil_wdata[0]) resetting <= 4'd8;
                    5'h03: errors <= errors & ~s_axil_wdata[1:0];
                    5'h0a: begin
                        if (s_axil_wdata[0]) pending <= 1'b0;
                        enable <= s_axil_wdata[8];
                    end
                    5'h18: load_word <= LOAD > 32 ? {load_word, s_axil_wdata} : s_axil_wdata;
                    5'h19: begin
                        load_valid <= 1'b1;
                        {load_memory, load_row} <= s_axil_wdata;
                    end
                    default: if (to[4:3] == 2'b10) digest[to[2:0]*32 +: 32] <= s_axil_wdata;
                endcase
            end
            if (tlast_early) errors[0] <= 1'b1;
            if (tlast_missing) errors[1] <= 1'b1;
            if (out_done) pending <= 1'b1;
            if (read) begin
                s_axil_rvalid <= 1'b1;
                case (from)
                    5'h00: s_axil_rdata <= 32'h4d474445;
                    5'h01: s_axil_rdata <= 32'd1;
                    5'h03: s_axil_rdata <= {30'd0, errors};
                    5'h04: s_axil_rdata <= frames_in;
                    5'h05: s_axil_rdata <= frames_out;
                    5'h06: begin
                        s_axil_rdata <= cycles[31:0];
                        cycles_high <= cycles[63:32];
                    end
                    5'h07: s_axil_rdata <= cycles_high;
                    5'h08: s_axil_rdata <= IN_WORDS;
                    5'h09: s_axil_rdata <= OUT_WORDS;
                    5'h0a: s_axil_rdata <= {23'd0, enable, 7'd0, pending};
                    default: s_axil_rdata <= from[4:3] == 2'b10 ? digest[from[2:0]*32 +: 32] : 32'd0;
                endcase
            end
        end
    end

endmodule

`default_nettype wire
