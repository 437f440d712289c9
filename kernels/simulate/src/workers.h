// Threads that share the units of one loop.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace edgemeta::simulate {

class Workers {
 public:
  // The process's own, with as many threads as were ever asked for.
  static Workers& shared();

  // Call f(0) .. f(units - 1), each once, on up to `threads` threads, this one included; returns when all are done.
  // The threads are OpenMP's where the process has GNU's runtime, as with PyTorch: its threads wait for work busily for
  // a while, and would keep threads of our own from their cores. Otherwise they are our own, and a second caller
  // meanwhile works alone.
  void run(int threads, int64_t units, const std::function<void(int64_t)>& f);

  ~Workers();

 private:
  struct Job {
    const std::function<void(int64_t)>* f;
    int64_t units;
    std::atomic<int64_t> next{0};
  };

  void grow(int threads);
  void work();
  static void share(Job& job);

  std::mutex callers_, mutex_;
  std::condition_variable wake_, done_;
  std::vector<std::thread> threads_;
  Job* job_ = nullptr;
  uint64_t jobs_ = 0;
  int active_ = 0;
  bool stop_ = false;
};

}  // namespace edgemeta::simulate
