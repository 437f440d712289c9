// C interface of a Verilator model of `edgemeta_accelerator`, for ctypes: run streams clock by clock, access registers.
#include <chrono>
#include <cstdint>
#include <new>

#include "Vedgemeta_accelerator.h"
#include "verilated.h"

double sc_time_stamp() { return 0; }

namespace {

struct Simulation {
    VerilatedContext context;
    Vedgemeta_accelerator top{&context};
    uint64_t cycles = 0;
    uint64_t in_words, in_at = 0;  // words per image, and words of the present one

    void clock() {
        top.aclk = 0;
        top.eval();
        top.aclk = 1;
        top.eval();
        ++cycles;
    }
};

// xorshift64*, for random stalls
uint32_t next(uint64_t &state) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return static_cast<uint32_t>((state * 2685821657736338717ULL) >> 33);
}

}  // namespace

extern "C" {

void *edgemeta_open(uint64_t in_words) {
    auto *simulation = new (std::nothrow) Simulation();
    if (simulation == nullptr) return nullptr;
    simulation->in_words = in_words;
    auto &top = simulation->top;
    top.s_axis_tvalid = top.m_axis_tready = top.s_axil_awvalid = top.s_axil_wvalid = top.s_axil_arvalid = 0;
    top.s_axil_bready = top.s_axil_rready = 1;
    top.aresetn = 0;
    for (int i = 0; i < 4; ++i) simulation->clock();
    top.aresetn = 1;
    for (int i = 0; i < 12; ++i) simulation->clock();
    return simulation;
}

void edgemeta_close(void *handle) {
    auto *simulation = static_cast<Simulation *>(handle);
    if (simulation == nullptr) return;
    simulation->top.final();
    delete simulation;
}

uint64_t edgemeta_cycles(void *handle) { return static_cast<Simulation *>(handle)->cycles; }

// Offers `in_count` bytes and takes up to `out_count` words until both are done or `limit` clocks have passed. stall: of
// 256, how often a side pauses for a clock, drawn from `seed`. Returns the clocks; done[0], done[1]: words read and
// written; last: clock of every output word, counted from the call, where it is not null. milliseconds: of real time,
// after which it gives up as well; 0 is no limit.
uint64_t edgemeta_stream(void *handle, const uint8_t *in, uint64_t in_count, int32_t *out, uint64_t out_count,
                         uint32_t stall, uint64_t seed, uint64_t limit, uint64_t milliseconds, uint64_t *done,
                         uint64_t *last) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    auto *simulation = static_cast<Simulation *>(handle);
    auto &top = simulation->top;
    uint64_t taken = 0, given = 0, clocks = 0, state = seed * 2 + 1;
    bool offering = false;
    for (; (taken < in_count || given < out_count) && clocks < limit; ++clocks) {
        if (milliseconds != 0 && clocks % 256 == 255 && std::chrono::steady_clock::now() > end) break;
        // An offer stays until it is taken, as AXI4-Stream demands.
        if (!offering) offering = taken < in_count && (stall == 0 || (next(state) & 255) >= stall);
        top.s_axis_tvalid = offering;
        if (offering) {
            top.s_axis_tdata = in[taken];
            top.s_axis_tlast = simulation->in_at == simulation->in_words - 1;
        }
        top.m_axis_tready = given < out_count && (stall == 0 || (next(state) & 255) >= stall);
        top.aclk = 0;
        top.eval();
        if (top.s_axis_tvalid && top.s_axis_tready) {
            ++taken;
            offering = false;
            simulation->in_at = top.s_axis_tlast ? 0 : simulation->in_at + 1;
        }
        if (top.m_axis_tvalid && top.m_axis_tready) {
            if (last != nullptr) last[given] = clocks + 1;
            out[given++] = static_cast<int32_t>(top.m_axis_tdata);
        }
        top.aclk = 1;
        top.eval();
        ++simulation->cycles;
    }
    top.s_axis_tvalid = top.m_axis_tready = 0;
    done[0] = taken;
    done[1] = given;
    return clocks;
}

uint32_t edgemeta_read(void *handle, uint32_t address) {
    auto *simulation = static_cast<Simulation *>(handle);
    auto &top = simulation->top;
    top.s_axil_araddr = address;
    top.s_axil_arvalid = 1;
    simulation->clock();
    top.s_axil_arvalid = 0;
    top.aclk = 0;
    top.eval();
    const uint32_t value = top.s_axil_rdata;
    simulation->clock();
    return value;
}

void edgemeta_write(void *handle, uint32_t address, uint32_t value) {
    auto *simulation = static_cast<Simulation *>(handle);
    auto &top = simulation->top;
    top.s_axil_awaddr = address;
    top.s_axil_wdata = value;
    top.s_axil_awvalid = top.s_axil_wvalid = 1;
    simulation->clock();
    top.s_axil_awvalid = top.s_axil_wvalid = 0;
    simulation->clock();
    if (address == 8 && (value & 1) != 0) {
        simulation->in_at = 0;
        for (int i = 0; i < 12; ++i) simulation->clock();
    }
}

}  // extern "C"
