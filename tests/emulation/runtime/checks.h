// Checks of a checked module (g++ -fsanitize=thread): every memory access, through the calls that the compiler inserts
// before it. A fast module makes no such calls and has no shadow memory.
#pragma once

namespace emulation {

char *module_start();
void start_checks();
void end_checks();

}  // namespace emulation
