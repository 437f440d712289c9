// Exports a kernel of the source before it: EMULATION_KERNEL(name), which the compiler (compiler.py) appends to the
// source.
#pragma once
#include "abi.h"
#include "block.h"

namespace emulation {

template <unsigned... I>
struct Indices {};

template <class... P>
struct Caller {
  static constexpr unsigned kBytes[] = {unsigned(sizeof(P))...};

  template <void (*function)(P...)>
  static void call(void *const *parameters) {
    spread<function>(parameters, Indices<__integer_pack(sizeof...(P))...>());
  }
  template <void (*function)(P...), unsigned... I>
  EMULATION_UNCHECKED static void spread(void *const *parameters, Indices<I...>) {
    function(*static_cast<P *>(parameters[I])...);
  }
};
template <class... P>
constexpr unsigned Caller<P...>::kBytes[];

template <class Function>
struct CallerOf;
template <class... P>
struct CallerOf<void (*)(P...)> {
  typedef Caller<P...> type;
  static constexpr unsigned kCount = sizeof...(P);
};

}  // namespace emulation

EMULATION_EXPORT const int emulation_architecture;
const int emulation_architecture = __CUDA_ARCH__;

#define EMULATION_KERNEL(function)                                                          \
  EMULATION_EXPORT const emulation::Kernel emulation_kernel_##function;                     \
  const emulation::Kernel emulation_kernel_##function = {                                   \
      #function, &emulation::CallerOf<decltype(&function)>::type::call<&function>,          \
      emulation::CallerOf<decltype(&function)>::kCount, emulation::CallerOf<decltype(&function)>::type::kBytes};
