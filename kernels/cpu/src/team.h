// Threads that wait to help with a piece of work: spinning for a short while, then asleep.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace edgemeta {

// One turn of waiting for another thread: a pause at first, then the processor is given away.
void relax(int spins);

class Team {
 public:
  // size - 1 threads, each to run help(i), i = 1 .. size - 1, after every call.
  Team(int size, std::function<void(int)> help);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return size_; }

  // Let the others help. Returns at once: one that the system does not run just now comes late, or only to the next
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
