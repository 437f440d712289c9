// Runs the C++ library on another processor: reads calls of its C interface from standard input, writes their results
// to standard output. `library.py` is the other side.
//
// A call is the function's name, then its arguments by their types: numbers as they are, program and resizer handles as
// 64 bits, arrays and structs as blobs (32 bits of length, the bytes; length -1 for a null pointer), structs with
// pointers field by field. A result is 64 bits and the error text of EM_ERROR_BYTES.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <array>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "../../kernels/cpu/src/edgemeta_cpu.h"

namespace {

void read_bytes(void* to, size_t bytes) {
  if (bytes > 0 && fread(to, 1, bytes, stdin) != bytes) exit(0);  // the other side has ended
}

template <typename T>
T read_number() {
  T value;
  read_bytes(&value, sizeof value);
  return value;
}

void write_bytes(const void* from, size_t bytes) { fwrite(from, 1, bytes, stdout); }

// Blobs of the current call.
std::deque<std::vector<uint8_t>> blobs;

template <typename T>
T* read_blob() {
  const auto size = read_number<int32_t>();
  if (size < 0) return nullptr;
  blobs.emplace_back(static_cast<size_t>(size));
  read_bytes(blobs.back().data(), blobs.back().size());
  return reinterpret_cast<T*>(blobs.back().data());
}

char error[EM_ERROR_BYTES];

// How an argument of each type is read.
template <typename T>
struct Argument {
  T value = read_number<T>();
  T get() const { return value; }
};
template <typename T>
struct Argument<T*> {
  T* value = read_blob<T>();
  T* get() const { return value; }
};
template <>
struct Argument<em_program*> {
  em_program* value = reinterpret_cast<em_program*>(static_cast<uintptr_t>(read_number<uint64_t>()));
  em_program* get() const { return value; }
};
template <>
struct Argument<const em_program*> : Argument<em_program*> {};
template <>
struct Argument<em_resizer*> {
  em_resizer* value = reinterpret_cast<em_resizer*>(static_cast<uintptr_t>(read_number<uint64_t>()));
  em_resizer* get() const { return value; }
};
template <>
struct Argument<char*> {
  char* get() const { return error; }
};
template <>
struct Argument<const em_requantize*> {
  em_requantize fields{read_number<int32_t>(), read_blob<const int32_t>(), read_blob<const uint8_t>(),
                       read_number<int32_t>(), read_number<int32_t>(),     read_blob<const int16_t>()};
  const em_requantize* get() const { return &fields; }
};
template <>
struct Argument<const em_neighbours*> {
  em_neighbours fields{read_blob<const int32_t>(), read_blob<const int32_t>(), read_blob<const int32_t>()};
  const em_neighbours* get() const { return &fields; }
};
em_axis read_axis() {
  return {read_number<int32_t>(), read_blob<const int32_t>(), read_blob<const int32_t>(), read_blob<const int32_t>(),
          read_number<int32_t>()};
}
template <>
struct Argument<const em_resize*> {
  em_resize fields{read_axis(),
                   read_axis(),
                   read_number<int32_t>(),
                   read_number<int32_t>(),
                   read_number<int32_t>(),
                   read_number<int32_t>(),
                   read_number<int32_t>(),
                   read_number<int32_t>(),
                   read_number<int32_t>(),
                   read_number<int32_t>(),
                   read_blob<const int32_t>(),
                   read_blob<const uint8_t>(),
                   read_blob<const uint8_t>()};
  const em_resize* get() const { return &fields; }
};

void reply(uint64_t result) {
  write_bytes(&result, sizeof result);
  write_bytes(error, sizeof error);
}

uint64_t bits_of(int32_t result) { return static_cast<uint64_t>(static_cast<int64_t>(result)); }
uint64_t bits_of(int64_t result) { return static_cast<uint64_t>(result); }
uint64_t bits_of(const void* result) { return reinterpret_cast<uintptr_t>(result); }

// A text follows its length.
void call_text(const char* (*function)(const em_program*, int32_t)) {
  const auto* program = Argument<const em_program*>{}.get();
  const char* text = function(program, read_number<int32_t>());
  reply(strlen(text));
  write_bytes(text, strlen(text));
}

template <typename Result, typename... Arguments>
void call(Result (*function)(Arguments...)) {
  std::tuple<Argument<Arguments>...> arguments{Argument<Arguments>{}...};  // braces: read from left to right
  std::apply(
      [&](const auto&... each) {
        if constexpr (std::is_void_v<Result>) {
          function(each.get()...);
          reply(0);
        } else {
          reply(bits_of(function(each.get()...)));
        }
      },
      arguments);
}

// The outputs follow the result. Their sizes come after the images.
void run() {
  auto* program = Argument<em_program*>{}.get();
  const auto images = read_number<int32_t>();
  const auto* input = read_blob<const uint8_t>();
  std::vector<std::vector<uint8_t>> outputs(static_cast<size_t>(read_number<int32_t>()));
  std::vector<void*> addresses;
  for (auto& output : outputs) {
    output.resize(static_cast<size_t>(read_number<int32_t>()));
    addresses.push_back(output.data());
  }
  em_run(program, images, input, addresses.data());
  reply(0);
  for (const auto& output : outputs) write_bytes(output.data(), output.size());
}

// The frame's bytes, where its first pixel is in them, and the size of the output.
void run_resizer() {
  auto* resizer = Argument<em_resizer*>{}.get();
  const auto* frame = read_blob<const uint8_t>();
  const auto first = read_number<int32_t>(), row_bytes = read_number<int32_t>();
  std::vector<uint8_t> output(static_cast<size_t>(read_number<int32_t>()));
  em_resizer_run(resizer, frame + first, row_bytes, output.data());
  reply(0);
  write_bytes(output.data(), output.size());
}

#define EM_CALL(function) {#function, [] { call(function); }}
const std::map<std::string, void (*)()> kFunctions = {
    EM_CALL(em_abi_version),
    EM_CALL(em_best_isa),
    EM_CALL(em_open),
    EM_CALL(em_close),
    EM_CALL(em_isa),
    EM_CALL(em_prefer),
    EM_CALL(em_add_tensor),
    EM_CALL(em_add_conv),
    EM_CALL(em_set_bases),
    EM_CALL(em_add_sum),
    EM_CALL(em_add_clamp),
    EM_CALL(em_add_rescale),
    EM_CALL(em_add_max_pool),
    EM_CALL(em_add_average_pool),
    EM_CALL(em_add_concat),
    EM_CALL(em_add_upsample),
    EM_CALL(em_add_lookup),
    EM_CALL(em_add_product),
    EM_CALL(em_add_pad),
    EM_CALL(em_add_slice),
    EM_CALL(em_add_channel_shuffle),
    EM_CALL(em_add_resize_bilinear),
    EM_CALL(em_seal),
    EM_CALL(em_resizer_open),
    EM_CALL(em_resizer_close),
    EM_CALL(em_steps),
    {"em_step_name", [] { call_text(em_step_name); }},
    {"em_step_form", [] { call_text(em_step_form); }},
    EM_CALL(em_step_weight_bytes),
    EM_CALL(em_step_predicted),
    {"em_run", run},
    {"em_resizer_run", run_resizer},
};

}  // namespace

int main() {
  for (;;) {
    blobs.clear();
    error[0] = 0;
    kFunctions.at(read_blob<const char>())();
    fflush(stdout);
  }
}
