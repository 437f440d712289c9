// Reads a block of little-endian bytes (kernels/lowering/plan_bytes.py). Whatever the bytes are, none beyond the block
// is read: what does not fit is an exception that names the field.
#pragma once

#include <stdint.h>

#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace edgemeta {

inline void require(bool holds, const std::string& sentence) {
  if (!holds) throw std::runtime_error(sentence);
}

inline void require_between(int64_t value, int64_t lo, int64_t hi, const std::string& what) {
  require(lo <= value && value <= hi, what + " is " + std::to_string(value) + ", expected " + std::to_string(lo) +
                                          " .. " + std::to_string(hi));
}

class Bytes {
 public:
  static constexpr int64_t kLeast = std::numeric_limits<int32_t>::min();
  static constexpr int64_t kGreatest = std::numeric_limits<int32_t>::max();
  static constexpr int64_t kAny = -1;  // any count of values

  Bytes(const uint8_t* bytes, size_t length) : at_(bytes), end_(bytes + length) {}

  int32_t number(const char* what, int64_t lo = kLeast, int64_t hi = kGreatest) {
    const auto value = take<int32_t>(what);
    require_between(value, lo, hi, what);
    return value;
  }

  // Values lo .. hi, stored as integers of 1, 2 or 4 bytes.
  template <typename T>
  std::vector<T> numbers(const char* what, int64_t expected, int64_t lo, int64_t hi) {
    const int64_t count = number(what, 0);
    const int32_t width = number(what, 1, 4);
    require(expected == kAny || count == expected, std::string(what) + " has " + std::to_string(count) +
                                                       " values, expected " + std::to_string(expected));
    require(count * width <= left(), std::string(what) + " ends beyond the bytes");
    switch (width) {
      case 1:
        return widened<T, int8_t>(what, count, lo, hi);
      case 2:
        return widened<T, int16_t>(what, count, lo, hi);
      case 4:
        return widened<T, int32_t>(what, count, lo, hi);
      default:
        throw std::runtime_error(std::string(what) + " has values of 3 bytes, expected 1, 2 or 4");
    }
  }

  std::string text(const char* what, int64_t most) {
    const int32_t length = number(what, 1, most);
    require(length <= left(), std::string(what) + " ends beyond the bytes");
    std::string value(reinterpret_cast<const char*>(at_), static_cast<size_t>(length));
    at_ += length;
    for (const char each : value)
      require(static_cast<unsigned char>(each) >= ' ', std::string(what) + " is not printable");
    return value;
  }

  void end() const { require(left() == 0, std::to_string(left()) + " bytes follow the last field"); }

 private:
  int64_t left() const { return end_ - at_; }

  template <typename T>
  T take(const char* what) {
    require(left() >= static_cast<int64_t>(sizeof(T)), std::string(what) + " ends beyond the bytes");
    T value;
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

  template <typename T, typename Stored>
  std::vector<T> widened(const char* what, int64_t count, int64_t lo, int64_t hi) {
    std::vector<T> values(static_cast<size_t>(count));
    for (T& value : values) {
      Stored stored;
      std::memcpy(&stored, at_, sizeof stored);
      at_ += sizeof stored;
      if (stored < lo || stored > hi) require_between(stored, lo, hi, what);
      value = static_cast<T>(stored);
    }
    return values;
  }

  const uint8_t* at_;
  const uint8_t* const end_;
};

}  // namespace edgemeta
