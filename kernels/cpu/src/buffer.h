// Memory aligned to a cache line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace edgemeta {

class Buffer {
 public:
  Buffer() = default;
  // Zeroed. Throws std::bad_alloc.
  explicit Buffer(size_t bytes) : bytes_((bytes + kLine) / kLine * kLine) {
    data_.reset(static_cast<uint8_t*>(std::aligned_alloc(kLine, bytes_)));
    if (!data_) throw std::bad_alloc();
    for (size_t i = 0; i < bytes_; ++i) data_[i] = 0;
  }
  uint8_t* data() const { return data_.get(); }
  size_t size() const { return bytes_; }

 private:
  static constexpr size_t kLine = 64;
  struct Free {
    void operator()(uint8_t* p) const { std::free(p); }
  };
  std::unique_ptr<uint8_t[], Free> data_;
  size_t bytes_ = 0;
};

}  // namespace edgemeta
