// Instruction sets: which ones this build and this machine have, and their kernels.
#pragma once

#include "kernels.h"

namespace edgemeta {

// One of the numbers EM_PORTABLE .. EM_AVX512VNNI: the fastest that can run here.
int best_isa();

// Kernels of `isa` (EM_AUTO: of the fastest). Throws std::runtime_error where this machine lacks it.
const Kernels& kernels_for(int isa);

// The number of the kernels' instruction set.
int isa_of(const Kernels& kernels);

}  // namespace edgemeta
