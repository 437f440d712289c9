// Thread pool: threads that wait for work, first spinning for a short time, then sleeping.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace edgemeta {

// One iteration of waiting for another thread: a pause at first, then a yield.
void relax(int spins);

class Team {
 public:
  // size - 1 threads, each to run help(i), i = 1 .. size - 1, after every call.
  Team(int size, std::function<void(int)> help);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return size_; }

  // Wake the other threads. Returns at once: a thread that is not scheduled may join late, or only at the next
  // call.
  void call();

 private:
  void work(int index);
  unsigned wait_for_call(unsigned seen);
  void stop();

  const int size_;
  const std::function<void(int)> help_;
  std::atomic<unsigned> calls_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::thread> threads_;
};

}  // namespace edgemeta
