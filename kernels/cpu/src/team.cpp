#include "team.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace edgemeta {
namespace {

constexpr int kSpins = 4000;  // some tens of microseconds: longer than a layer, shorter than a camera's frame

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

}  // namespace

Team::Team(int size) : size_(size) {
  try {
    for (int i = 1; i < size; ++i) threads_.emplace_back([this, i] { work(i); });
  } catch (...) {  // the machine gives no more threads: end those that run, as a destructor would not be called
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
      ++round_;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    throw;
  }
}

Team::~Team() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    ++round_;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Team::run(void (*job)(void*, int), void* context) {
  if (size_ == 1) return job(context, 0);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    job_ = job;
    context_ = context;
    ++round_;
  }
  wake_.notify_all();
  job(context, 0);
  barrier();
}

void Team::barrier() {
  if (size_ == 1) return;
  const unsigned phase = phase_.load(std::memory_order_acquire);
  if (waiting_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
    waiting_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    return;
  }
  for (int spins = 0; phase_.load(std::memory_order_acquire) == phase; ++spins) {
    if (spins < kSpins)
      pause();
    else
      std::this_thread::yield();
  }
}

void Team::wait_for_job(unsigned seen) {
  for (int spins = 0; spins < kSpins; ++spins) {
    if (round_.load(std::memory_order_acquire) != seen) return;
    pause();
  }
  std::unique_lock<std::mutex> lock(mutex_);
  wake_.wait(lock, [&] { return round_.load(std::memory_order_relaxed) != seen; });
}

void Team::work(int index) {
  for (unsigned seen = 0;; ++seen) {
    wait_for_job(seen);
    if (stop_) return;
    job_(context_, index);
    barrier();
  }
}

}  // namespace edgemeta
