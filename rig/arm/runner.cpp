// Runs the C++ library on another processor: reads calls of its C interface from standard input, writes their results
// to standard output. `library.py` is the other side.
//
// A call is the function's name in 16 bytes, 64 bits of length, and so many bytes of arguments: numbers as the C
// interface has them, handles as 64 bits, bytes up to the end. An answer is the error text of EM_ERROR_BYTES, 64 bits
// of length, and so many bytes: a number of 64 bits, a text, or what arrays received.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <map>
#include <string>
#include <vector>

#include "../../kernels/cpu/src/edgemeta_cpu.h"

namespace {

char error[EM_ERROR_BYTES];

void read_bytes(void* to, size_t bytes) {
  if (bytes > 0 && fread(to, 1, bytes, stdin) != bytes) exit(0);  // the other side has ended
}

// The arguments of one call, from the first to the last.
class Arguments {
 public:
  explicit Arguments(size_t bytes) : bytes_(bytes) { read_bytes(bytes_.data(), bytes); }

  template <typename T>
  T number() {
    T value;
    memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  template <typename T>
  T* handle() {
    return reinterpret_cast<T*>(static_cast<uintptr_t>(number<int64_t>()));
  }
  const uint8_t* rest() const { return bytes_.data() + at_; }
  int64_t rest_bytes() const { return static_cast<int64_t>(bytes_.size() - at_); }

 private:
  std::vector<uint8_t> bytes_;
  size_t at_ = 0;
};

std::string bytes_of(int64_t number) { return {reinterpret_cast<const char*>(&number), sizeof number}; }
std::string bytes_of(const void* handle) { return bytes_of(static_cast<int64_t>(reinterpret_cast<uintptr_t>(handle))); }

// The sizes of the outputs come before the images.
std::string run(Arguments& in) {
  auto* program = in.handle<em_program>();
  const auto images = in.number<int32_t>();
  std::vector<int64_t> sizes(static_cast<size_t>(in.number<int32_t>()));
  size_t total = 0;
  for (int64_t& size : sizes) total += static_cast<size_t>(size = in.number<int64_t>());
  std::string found(total, '\0');
  std::vector<void*> outputs;
  total = 0;
  for (const int64_t size : sizes) {
    outputs.push_back(&found[total]);
    total += static_cast<size_t>(size);
  }
  em_run(program, images, in.rest(), outputs.data());
  return found;
}

std::string open_resizer(Arguments& in) {
  const auto isa = in.number<int32_t>();
  return bytes_of(em_resizer_open(isa, in.rest(), in.rest_bytes(), error));
}

// Where the frame's first pixel is in its bytes, the stride of its rows, and the size of the output.
std::string run_resizer(Arguments& in) {
  auto* resizer = in.handle<em_resizer>();
  const auto first = in.number<int64_t>(), row_bytes = in.number<int64_t>();
  std::string found(static_cast<size_t>(in.number<int64_t>()), '\0');
  em_resizer_run(resizer, in.rest() + first, row_bytes, reinterpret_cast<uint8_t*>(&found[0]));
  return found;
}

std::string open(Arguments& in) {
  const auto isa = in.number<int32_t>();
  return bytes_of(em_open(isa, in.number<int32_t>(), error));
}

std::string load(Arguments& in) {
  auto* program = in.handle<em_program>();
  return bytes_of(int64_t{em_load(program, in.rest(), in.rest_bytes(), error)});
}

std::string size(Arguments& in) {
  auto* program = in.handle<em_program>();
  return bytes_of(em_bytes(program, in.number<int32_t>()));
}

const std::map<std::string, std::string (*)(Arguments&)> kFunctions = {
    {"em_best_isa", [](Arguments&) { return bytes_of(int64_t{em_best_isa()}); }},
    {"em_open", open},
    {"em_close", [](Arguments& in) { return em_close(in.handle<em_program>()), std::string(); }},
    {"em_isa", [](Arguments& in) { return bytes_of(int64_t{em_isa(in.handle<em_program>())}); }},
    {"em_load", load},
    {"em_bytes", size},
    {"em_steps", [](Arguments& in) { return std::string(em_steps(in.handle<em_program>())); }},
    {"em_run", run},
    {"em_resizer_open", open_resizer},
    {"em_resizer_close", [](Arguments& in) { return em_resizer_close(in.handle<em_resizer>()), std::string(); }},
    {"em_resizer_run", run_resizer},
};

}  // namespace

int main() {
  for (;;) {
    char name[17] = {};
    int64_t length = 0;
    read_bytes(name, 16);
    read_bytes(&length, sizeof length);
    Arguments arguments(static_cast<size_t>(length));
    error[0] = 0;
    const std::string found = kFunctions.at(name)(arguments);
    fwrite(error, 1, sizeof error, stdout);
    const std::string bytes = bytes_of(static_cast<int64_t>(found.size()));
    fwrite(bytes.data(), 1, bytes.size(), stdout);
    fwrite(found.data(), 1, found.size(), stdout);
    fflush(stdout);
  }
}
