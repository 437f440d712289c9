// Checks of a checked module (g++ -fsanitize=thread): every memory access, through the calls that the compiler inserts
// before it. A fast module makes no such calls and has no shadow memory.
#pragma once

namespace emulation {

char *module_start();
void start_checks();
void end_checks();

// What is known of the accesses to shared memory, of one block of several that run by turns.
struct SharedChecks;
SharedChecks *new_shared_checks();  // takes those of the running block
void start_shared_checks();         // of a block that starts
void use_shared_checks(SharedChecks *checks);
void delete_shared_checks(SharedChecks *checks);

}  // namespace emulation
