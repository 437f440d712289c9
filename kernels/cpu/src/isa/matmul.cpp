// Products of two tensors, for each head: convolutions of 1 x 1 whose weights are the second one, packed at each run.
//
// A weight holds w = b - 128, or b where bytes are signed, whose zero point is zw. So
//   sum of (a - za) (b - zb) = (sum of a w) + (terms za zw - za sum of w) - zw sum of a:
// what the kernel of convolutions sums, its bias, and a number for each row and head. All of it wraps around.
#include "finish.h"
#include "table.h"
#include "weights.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

constexpr int32_t kRows = 28;  // positions whose sums are made at a time: two tiles of AVX-512
constexpr int32_t kLess = Byte(-1) < 0 ? 0 : 128;

inline int32_t rounded_up(int32_t count, int32_t to) { return (count + to - 1) / to * to; }
inline int32_t wrapped(int64_t sum) { return static_cast<int32_t>(static_cast<uint64_t>(sum)); }

// Where things are in the memory of a run.
struct Room {
  int32_t columns, span;  // of a head, padded
  int32_t row;            // sums of a position: those of the last head may be written beyond its results
  int64_t head;           // weights of a head
  int64_t sums, bias, sign, methods, pairs, weights, conv, bytes;

  explicit Room(const MatMul& op)
      : columns(rounded_up(op.results, kBlock)),
        span(rounded_up(op.terms, kSpanGroup)),
        row(op.out.blocks() * kBlock + kBlock),
        head(int64_t{columns} * span) {
    int64_t at = 0;
    const auto take = [&](int64_t size) {
      const int64_t from = at;
      at += (size + 63) / 64 * 64;
      return from;
    };
    sums = take(int64_t{kRows} * row * 4);
    bias = take(int64_t{op.heads} * columns * 4);
    sign = take(int64_t{columns} * 4);
    methods = take(columns / kBlock);
    pairs = take(columns / kBlock);
    weights = take(op.heads * head * sizeof(Weight));
    conv = at;
    bytes = at;
  }
};

// The shape of a convolution over `rows` positions of one head.
Conv shape_of(const MatMul& op, const Room& room, int32_t rows) {
  Conv conv{};
  conv.in = op.a;
  conv.in.height = 1;
  conv.in.width = conv.out.width = rows;
  conv.in.channels = op.terms;
  conv.out.height = 1;
  conv.out.channels = op.results;
  conv.out.pixel = room.row * 4;
  conv.out.row = int64_t{rows} * conv.out.pixel;
  conv.window = {1, 1, 1, 1, 0, 0};
  conv.spans = 1;
  conv.span = room.span;
  conv.span_step = op.a.pixel;
  return conv;
}

Conv conv_of(const MatMul& op, const Room& room, int32_t rows, int32_t h, uint8_t* own) {
  Conv conv = shape_of(op, room, rows);
  conv.in.origin += h * op.terms;
  conv.weights = own + room.weights + h * room.head * static_cast<int64_t>(sizeof(Weight));
  conv.weight_bytes = sizeof(Weight);
  conv.block_bytes = int64_t{room.span} * kBlock * static_cast<int64_t>(sizeof(Weight));
  conv.lowest_pairs = own + room.pairs;
  conv.bias = reinterpret_cast<const int32_t*>(own + room.bias) + int64_t{h} * room.columns;
  conv.requantize.method = reinterpret_cast<const Method*>(own + room.methods);
  conv.requantize.sign = reinterpret_cast<const int32_t*>(own + room.sign);
  return conv;
}

inline int32_t weight_of(uint8_t byte) { return static_cast<Byte>(byte) - kLess; }

// The weights of one position for one head: its results begin at `to`, of a group of terms or of a block of results.
inline void pack_terms(const uint8_t* from, int32_t terms, Weight* to, int32_t& total) {
  for (int32_t k = 0; k < terms; ++k) {
    const int32_t w = weight_of(from[k]);
    to[k / kWeightGroup * kBlock * kWeightGroup + k % kWeightGroup] = static_cast<Weight>(w);
    total += w;
  }
}

inline void pack_results(const uint8_t* from, int32_t results, int64_t block, Weight* to, int32_t* totals) {
  for (int32_t begin = 0; begin < results; begin += kBlock, to += block)
    for (int32_t n = begin; n < smaller(begin + kBlock, results); ++n) {
      const int32_t w = weight_of(from[n]);
      to[(n - begin) * kWeightGroup] = static_cast<Weight>(w);
      totals[n] += w;
    }
}

// The second operand as weights, and the bias.
void pack(const MatMul& op, const Room& room, const uint8_t* arena, uint8_t* own) {
  const View& b = op.b;
  Weight* weights = reinterpret_cast<Weight*>(own + room.weights);
  int32_t* bias = reinterpret_cast<int32_t*>(own + room.bias);
  const int64_t block = int64_t{room.span} * kBlock;
  memset(own + room.bias, 0, room.conv - room.bias);
  memset(own + room.pairs, 0xff, room.columns / kBlock);
  for (int32_t i = 0; i < room.columns / kBlock; ++i) own[room.methods + i] = static_cast<uint8_t>(Method::raw);
  int32_t position = 0;
  for (int32_t y = 0; y < b.height; ++y) {
    for (int32_t x = 0; x < b.width; ++x, ++position) {
      const uint8_t* from = arena + b.at(y, x);
      for (int32_t h = 0; h < op.heads; ++h) {
        Weight* head = weights + h * room.head;
        int32_t* totals = bias + int64_t{h} * room.columns;
        if (op.transposed) {
          Weight* to = head + position / kBlock * block + position % kBlock * kWeightGroup;
          pack_terms(from + h * op.terms, op.terms, to, totals[position]);
        } else {
          Weight* to = head + position / kWeightGroup * kBlock * kWeightGroup + position % kWeightGroup;
          pack_results(from + h * op.results, op.results, block, to, totals);
        }
      }
    }
  }
  const int64_t za = op.a.zero, zw = op.b.zero - kLess;
  for (int64_t i = 0; i < int64_t{op.heads} * room.columns; ++i) bias[i] = wrapped(op.terms * za * zw - za * bias[i]);
}

// Takes zw times the sum of a position's terms off the sums of each head.
void take_off_rows(const MatMul& op, const uint8_t* in, int32_t* sums) {
  const int32_t zw = op.b.zero - kLess;
  for (int32_t h = 0; h < op.heads; ++h, in += op.terms, sums += op.results) {
    int32_t total = 0;
    for (int32_t k = 0; k < op.terms; ++k) total += static_cast<Byte>(in[k]);
    const int32_t part = wrapped(int64_t{zw} * total);
    const I32x16 parts = splat(part);
    int32_t n = 0;
    for (; n + kBlock <= op.results; n += kBlock) store(sums + n, load(sums + n) - parts);
    for (; n < op.results; ++n) sums[n] = wrapped(int64_t{sums[n]} - part);
  }
}

}  // namespace

size_t matmul_scratch(const MatMul& op) {
  const Room room(op);
  return static_cast<size_t>(room.bytes) + conv_scratch(shape_of(op, room, smaller(kRows, op.out.width)));
}

void matmul(const MatMul& op, uint8_t* arena, int32_t first, int32_t last, uint8_t* own) {
  const Room room(op);
  pack(op, room, arena, own);
  int32_t* sums = reinterpret_cast<int32_t*>(own + room.sums);
  memset(sums, 0, int64_t{kRows} * room.row * 4);
  const int64_t here = reinterpret_cast<intptr_t>(sums) - reinterpret_cast<intptr_t>(arena);
  for (int32_t y = first; y < last; ++y)
    for (int32_t x = 0; x < op.out.width; x += kRows) {
      const int32_t rows = smaller(kRows, op.out.width - x);
      for (int32_t h = 0; h < op.heads; ++h) {  // in order: what a head writes beyond its results is the next one's
        Conv conv = conv_of(op, room, rows, h, own);
        conv.in.origin += op.a.at(y, x) - op.a.origin;
        conv.out.origin = here + int64_t{h} * op.results * 4;
        edgemeta::EM_NAMESPACE::conv(conv, arena, 0, 1, own + room.conv);
      }
      if (op.b.zero != kLess)
        for (int32_t p = 0; p < rows; ++p) take_off_rows(op, arena + op.a.at(y, x + p), sums + int64_t{p} * room.row);
      uint8_t* out = arena + op.out.at(y, x);
      for (int32_t block = 0; block < op.out.blocks(); ++block)
        with_stored_method(op.requantize, block, [&](const auto& finish, const auto& range) INLINE {
          const int32_t* from = sums + block * kBlock;
          for (int32_t p = 0; p < rows; ++p, from += room.row)
            store_bytes(out + int64_t{p} * op.out.pixel + block * kBlock, finish(load(from)), range);
        });
    }
}

}  // namespace edgemeta::EM_NAMESPACE
