// Thread pool: threads that wait for work, first spinning for a short time, then sleeping.
//
// A sleeping thread is woken with the caller's processor excluded from its affinity. Linux may otherwise wake it on
// that one, though another is idle: a virtual machine's idle processor looks as if its host had taken it away. The
// thread then takes turns with its caller until the scheduler next balances, which is many images later.
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
  void keep_off_callers_processor();
  void stop();

  const int size_;
  const std::function<void(int)> help_;
  std::atomic<unsigned> calls_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  int asleep_ = 0;     // threads; guarded by mutex_
  int excluded_ = -1;  // the processor that the threads' affinity leaves out; only the caller uses it
  std::vector<std::thread> threads_;
};

}  // namespace edgemeta
