#include "workers.h"

#include <dlfcn.h>

namespace edgemeta::simulate {
namespace {

// What compilers call for `#pragma omp parallel` (libgomp since GCC 4.9): f(data) on each of `threads` threads.
using Parallel = void (*)(void (*f)(void*), void* data, unsigned threads, unsigned flags);

// The process's own; null without GNU's OpenMP, which may be loaded later.
Parallel openmp() { return reinterpret_cast<Parallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel")); }

}  // namespace

Workers& Workers::shared() {
  static Workers workers;
  return workers;
}

Workers::~Workers() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::run(int threads, int64_t units, const std::function<void(int64_t)>& f) {
  if (threads < 2 || units < 2) {
    for (int64_t i = 0; i < units; ++i) f(i);
    return;
  }
  Job job{&f, units};
  if (const Parallel parallel = openmp()) {
    parallel([](void* data) { share(*static_cast<Job*>(data)); }, &job, static_cast<unsigned>(threads), 0);
    return;
  }
  const std::unique_lock<std::mutex> caller(callers_, std::try_to_lock);
  if (!caller.owns_lock()) return share(job);
  grow(threads);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    job_ = &job;
    ++jobs_;
  }
  wake_.notify_all();
  share(job);
  std::unique_lock<std::mutex> lock(mutex_);
  job_ = nullptr;  // a thread that wakes late finds nothing
  done_.wait(lock, [&] { return active_ == 0; });
}

void Workers::grow(int threads) {
  while (static_cast<int>(threads_.size()) < threads - 1) threads_.emplace_back([this] { work(); });
}

void Workers::share(Job& job) {
  for (int64_t i; (i = job.next.fetch_add(1)) < job.units;) (*job.f)(i);
}

void Workers::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (uint64_t seen = 0;;) {
    wake_.wait(lock, [&] { return stop_ || (job_ != nullptr && jobs_ != seen); });
    if (stop_) return;
    seen = jobs_;
    Job& job = *job_;
    ++active_;
    lock.unlock();
    share(job);
    lock.lock();
    if (--active_ == 0) done_.notify_all();
  }
}

}  // namespace edgemeta::simulate
