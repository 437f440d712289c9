// C interface of a Verilator model of `edgemeta_board`: its two pins, bit by bit, at a file, which is a pseudo terminal.
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <new>

#include "Vedgemeta_board.h"
#include "verilated.h"

double sc_time_stamp() { return 0; }

namespace {

constexpr int WAIT_MS = 50;  // between two looks at `stop` while nothing happens

struct Board {
    VerilatedContext context;
    Vedgemeta_board top{&context};
    uint64_t divider, quiet;  // clocks of a bit, and after which nothing more will come
    std::atomic<bool> stop{false};
    std::atomic<uint64_t> clocks{0};
    std::atomic<uint64_t> disturbance{0};  // which of the bits, of both directions together, is inverted; 0: none
    uint64_t bits = 0;

    bool inverted() {
        const uint64_t every = disturbance;
        return every != 0 && ++bits % every == 0;
    }

    bool clock(bool rx) {
        top.rx = rx;
        top.clk = 0;
        top.eval();
        top.clk = 1;
        top.eval();
        ++clocks;
        return top.tx;
    }
};

}  // namespace

extern "C" {

void *edgemeta_board_open(uint64_t divider, uint64_t quiet) {
    auto *board = new (std::nothrow) Board();
    if (board == nullptr) return nullptr;
    board->divider = divider;
    board->quiet = quiet;
    board->top.rst = 1;
    for (int i = 0; i < 16; ++i) board->clock(true);
    board->top.rst = 0;
    return board;
}

void edgemeta_board_close(void *handle) {
    auto *board = static_cast<Board *>(handle);
    board->top.final();
    delete board;
}

void edgemeta_board_stop(void *handle, bool stop) { static_cast<Board *>(handle)->stop = stop; }

uint64_t edgemeta_board_clocks(void *handle) { return static_cast<Board *>(handle)->clocks; }

void edgemeta_board_disturb(void *handle, uint64_t every) { static_cast<Board *>(handle)->disturbance = every; }

// Until `stop`, or the file ends: sends its bytes to rx and writes what comes from tx, a bit of both at a time. Without a
// byte on its way for `quiet` clocks the clock stands until the next one comes.
void edgemeta_board_serve(void *handle, int file) {
    auto &board = *static_cast<Board *>(handle);
    uint64_t since = 0;           // clocks since the last bit of a byte
    uint32_t sending = 0;         // bits of the byte at rx that are still to come, under a 1
    int taking = -1;              // clocks until the middle of the next bit at tx, or -1
    uint32_t taken = 0, bits = 0;
    bool level = true;
    uint64_t phase = 0;
    while (!board.stop) {
        if (phase == 0) {  // a bit of rx begins
            if (sending <= 1) {
                pollfd look{file, POLLIN, 0};
                if (poll(&look, 1, since < board.quiet ? 0 : WAIT_MS) < 0) return;
                uint8_t byte;
                if ((look.revents & POLLIN) != 0) {
                    if (read(file, &byte, 1) != 1) return;
                    sending = 1u << 10 | 1u << 9 | static_cast<uint32_t>(byte) << 1;
                } else if ((look.revents & (POLLHUP | POLLERR)) != 0) {
                    return;
                } else if (since >= board.quiet) {
                    continue;
                }
            }
            level = true;
            if (sending > 1) {
                level = ((sending & 1) != 0) != board.inverted();
                sending >>= 1;
                since = 0;
            }
        }
        phase = (phase + 1) % board.divider;
        const bool tx = board.clock(level);
        ++since;
        if (taking < 0 && !tx) {
            taking = static_cast<int>(board.divider / 2) - 1;
            taken = bits = 0;
        } else if (taking == 0) {
            since = 0;
            taking = static_cast<int>(board.divider) - 1;
            bits |= static_cast<uint32_t>(tx != board.inverted()) << taken;
            if (++taken == 10) {
                const uint8_t byte = static_cast<uint8_t>(bits >> 1);
                if (write(file, &byte, 1) != 1 && errno != EAGAIN) return;  // nobody reads: it is lost, as on a line
                taking = -1;
            }
        } else if (taking > 0) {
            --taking;
        }
    }
}

}  // extern "C"
