// Instruction sets: those that this build and this machine support, and their kernels.
#pragma once

#include "kernels.h"

namespace edgemeta {

// One of the numbers EM_PORTABLE .. EM_I8MM: the fastest that this machine supports.
int best_isa();

// Kernels of `isa` (EM_AUTO: of the fastest). Throws std::runtime_error if this machine does not support it.
const Kernels& kernels_for(int isa);

// The number of the kernels' instruction set.
int isa_of(const Kernels& kernels);

}  // namespace edgemeta
