#include "team.h"

#include <pthread.h>
#include <sched.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace edgemeta {
namespace {

constexpr int kSpins = 4000;  // some tens of microseconds: longer than a layer, shorter than a frame interval

}  // namespace

void relax(int spins) {
  if (spins >= kSpins) return std::this_thread::yield();
#if defined(__x86_64__)
  _mm_pause();
#endif
}

Team::Team(int size, std::function<void(int)> help) : size_(size), help_(std::move(help)) {
  try {
    for (int i = 1; i < size; ++i) threads_.emplace_back([this, i] { work(i); });
  } catch (...) {  // no more threads can be started: end the running ones, since no destructor runs
    stop();
    throw;
  }
}

Team::~Team() { stop(); }

void Team::stop() {
  stop_ = true;
  call();
  for (std::thread& thread : threads_) thread.join();
}

void Team::call() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);  // a thread between its last check and its sleep must not miss it
    ++calls_;
    if (asleep_ > 0) keep_off_callers_processor();
  }
  wake_.notify_all();
}

// What fails is left as it is, where a sandbox forbids it or there are more processors than a cpu_set_t holds: threads
// that share a processor are slow, not wrong.
void Team::keep_off_callers_processor() {
  const int own = sched_getcpu();
  cpu_set_t others;
  if (own == excluded_ || own < 0 || own >= CPU_SETSIZE) return;
  if (sched_getaffinity(0, sizeof others, &others) != 0) return;
  CPU_CLR(own, &others);
  if (CPU_COUNT(&others) == 0) return;
  for (std::thread& thread : threads_) pthread_setaffinity_np(thread.native_handle(), sizeof others, &others);
  excluded_ = own;
}

unsigned Team::wait_for_call(unsigned seen) {
  for (int spins = 0; spins < kSpins; ++spins) {
    const unsigned calls = calls_.load(std::memory_order_acquire);
    if (calls != seen) return calls;
    relax(spins);
  }
  std::unique_lock<std::mutex> lock(mutex_);
  ++asleep_;
  wake_.wait(lock, [&] { return calls_.load(std::memory_order_acquire) != seen; });
  --asleep_;
  return calls_.load(std::memory_order_acquire);
}

void Team::work(int index) {
  for (unsigned seen = 0;;) {
    seen = wait_for_call(seen);
    if (stop_) return;
    help_(index);
  }
}

}  // namespace edgemeta
