// A few threads that start and end a job together: spinning for a short while, then asleep.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace edgemeta {

class Team {
 public:
  explicit Team(int size);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return size_; }

  // Run job(context, i) for i = 0 .. size - 1, number 0 on the calling thread; returns when all are done.
  void run(void (*job)(void*, int), void* context);

  // Called by all threads of a running job: returns when every one of them has called it.
  void barrier();

 private:
  void work(int index);
  void wait_for_job(unsigned seen);

  const int size_;
  void (*job_)(void*, int) = nullptr;
  void* context_ = nullptr;
  std::atomic<unsigned> round_{0};  // counts jobs
  std::atomic<int> waiting_{0};     // threads at the barrier
  std::atomic<unsigned> phase_{0};  // counts barriers
  bool stop_ = false;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::thread> threads_;
};

}  // namespace edgemeta
