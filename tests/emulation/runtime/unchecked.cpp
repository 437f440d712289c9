// Linked into fast modules instead of checks.cpp.
#include "checks.h"

namespace emulation {

char *module_start() { return nullptr; }
void start_checks() {}
void end_checks() {}
void touch_atomically(const void *, unsigned) {}
void meet_blocks() {}
void fence() {}
SharedChecks *new_shared_checks() { return nullptr; }
void start_shared_checks() {}
void use_shared_checks(SharedChecks *) {}
void delete_shared_checks(SharedChecks *) {}

}  // namespace emulation
