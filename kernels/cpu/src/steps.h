// Shared by the files that convert layers to steps.
#pragma once

#include "program.h"

namespace edgemeta {

inline int32_t zero_of(const Tensor& tensor) { return tensor.type.zero_point + tensor.offset; }

// Where a layer writes: the memory of its output, with the zero point of the integers that it computes. They are of
// another tensor where a table follows, which replaces them.
View written_by(const Layer& layer, const std::vector<Tensor>& tensors);

Window window_of(const Layer& layer);

// How a layer's accumulators become integers of `output`. sums: of a convolution whose bias takes
// RequantizePlan::added.
RequantizePlan requantize_to(const Tensor& output, const Layer& layer, const std::vector<Run>& runs,
                             const Kernels& kernels, const Sums* sums = nullptr);

// An addition whose a is the operand 0 or 1 of the layer.
Sum sum_of(const Layer& layer, const std::vector<Tensor>& tensors, int32_t first_operand);

// A step whose arguments are plain data, of a kernel with or without scratch; kept: what they point to.
template <typename Arguments, typename Run, typename... Kept>
Step step_of(const Layer& layer, const Arguments& arguments, Run run, const Kept&... kept) {
  return {layer.name, arguments.out.height, [arguments, run, kept...](uint8_t* at, int32_t first, int32_t last,
                                                                      [[maybe_unused]] uint8_t* scratch) {
            if constexpr (std::is_invocable_v<Run, const Arguments&, uint8_t*, int32_t, int32_t>)
              run(arguments, at, first, last);
            else
              run(arguments, at, first, last, scratch);
          }};
}

Step make_convolution(const Layer& layer, const std::vector<Tensor>& tensors, const Kernels& kernels, size_t& scratch);

}  // namespace edgemeta
