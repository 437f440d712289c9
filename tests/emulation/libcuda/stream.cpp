// Streams, events, and graphs captured from a stream.
#include "state.h"

CUDA_API cuStreamCreate(CUstream *result, unsigned flags) {
  return entry(__func__, [&](Context &context) {
    auto stream = std::make_unique<Stream>();
    stream->is_blocking = (flags & 1) == 0;
    *result = stream.get();
    context.streams[*result] = std::move(stream);
    return kSuccess;
  });
}

CUDA_API cuStreamDestroy_v2(CUstream stream) {
  return entry(__func__, [&](Context &context) {
    if (context.streams.count(stream) == 0) return kInvalidHandle;
    const CUresult result = drain(context, *stream);
    for (const auto &each : context.events)
      if (each.first->stream == stream) each.first->stream = nullptr;
    context.streams.erase(stream);
    return result;
  });
}

CUDA_API cuStreamSynchronize(CUstream stream) {
  return entry(__func__, [&](Context &context) {
    if (breaks_a_capture(context)) return kCaptureUnsupported;
    if (stream == nullptr) return drain_blocking(context);
    return context.streams.count(stream) ? drain(context, *stream) : kInvalidHandle;
  });
}

// Executes the stream's pending work, but returns the state before that.
CUDA_API cuStreamQuery(CUstream stream) {
  return entry(__func__, [&](Context &context) {
    if (breaks_a_capture(context)) return kCaptureUnsupported;
    if (context.streams.count(stream) == 0) return kInvalidHandle;
    if (stream->pending.empty()) return kSuccess;
    const CUresult result = drain(context, *stream);
    return result == kSuccess ? kNotReady : result;
  });
}

CUDA_API cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  return entry(__func__, [&](Context &context) {
    if (breaks_a_capture(context)) return kCaptureUnsupported;
    if (context.streams.count(stream) == 0 || context.events.count(event) == 0) return kInvalidHandle;
    return event->stream == nullptr ? kSuccess : drain(context, *event->stream);
  });
}

CUDA_API cuEventCreate(CUevent *result, unsigned) {
  return entry(__func__, [&](Context &context) {
    auto event = std::make_unique<Event>();
    *result = event.get();
    context.events[*result] = std::move(event);
    return kSuccess;
  });
}

CUDA_API cuEventDestroy_v2(CUevent event) {
  return entry(__func__, [&](Context &context) {
    if (context.events.count(event) == 0) return kInvalidHandle;
    if (event->stream != nullptr) drain(context, *event->stream);
    context.events.erase(event);
    return context.failure;
  });
}

CUDA_API cuEventRecord(CUevent event, CUstream stream) {
  return entry(__func__, [&](Context &context) {
    if (context.events.count(event) == 0) return kInvalidHandle;
    if (stream != nullptr && stream->capture != nullptr && breaks_a_capture(context)) return kCaptureUnsupported;
    event->stream = stream;
    event->is_recorded = true;
    return enqueue(context, stream, [event] {
      event->stream = nullptr;
      event->time = Clock::now();
      return kSuccess;
    });
  });
}

CUDA_API cuEventSynchronize(CUevent event) {
  return entry(__func__, [&](Context &context) {
    if (breaks_a_capture(context)) return kCaptureUnsupported;
    if (context.events.count(event) == 0) return kInvalidHandle;
    return event->stream == nullptr ? kSuccess : drain(context, *event->stream);
  });
}

CUDA_API cuEventQuery(CUevent event) {
  return entry(__func__, [&](Context &context) {
    if (breaks_a_capture(context)) return kCaptureUnsupported;
    if (context.events.count(event) == 0) return kInvalidHandle;
    if (event->stream == nullptr) return kSuccess;
    const CUresult result = drain(context, *event->stream);
    return result == kSuccess ? kNotReady : result;
  });
}

CUDA_API cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
  return entry(__func__, [&](Context &context) {
    if (context.events.count(start) == 0 || context.events.count(end) == 0) return kInvalidHandle;
    if (!start->is_recorded || !end->is_recorded) return kInvalidHandle;
    if (start->stream != nullptr || end->stream != nullptr) return kNotReady;
    *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
    return kSuccess;
  });
}

CUDA_API cuStreamBeginCapture_v2(CUstream stream, int) {
  return entry(__func__, [&](Context &context) {
    if (context.streams.count(stream) == 0) return kInvalidHandle;
    if (stream->capture != nullptr) return kInvalidValue;
    stream->capture = std::make_unique<Graph>();
    stream->is_capture_broken = false;
    stream->capturer = std::this_thread::get_id();
    return kSuccess;
  });
}

CUDA_API cuStreamEndCapture(CUstream stream, CUgraph *result) {
  return entry(__func__, [&](Context &context) {
    *result = nullptr;
    if (context.streams.count(stream) == 0) return kInvalidHandle;
    if (stream->capture == nullptr) return kInvalidValue;
    const std::unique_ptr<Graph> graph = std::move(stream->capture);
    if (stream->is_capture_broken) return kCaptureInvalidated;
    auto kept = std::make_unique<Graph>(*graph);
    *result = kept.get();
    context.graphs[*result] = std::move(kept);
    return kSuccess;
  });
}

CUDA_API cuGraphInstantiateWithFlags(CUgraphExec *result, CUgraph graph, unsigned long long) {
  return entry(__func__, [&](Context &context) {
    if (context.graphs.count(graph) == 0) return kInvalidHandle;
    auto copy = std::make_unique<Graph>(*graph);
    *result = copy.get();
    context.graphs[*result] = std::move(copy);
    return kSuccess;
  });
}

CUDA_API cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  return entry(__func__, [&](Context &context) {
    if (context.graphs.count(graph) == 0) return kInvalidHandle;
    for (const Operation &operation : graph->operations) {
      const CUresult result = enqueue(context, stream, operation);
      if (result != kSuccess) return result;
    }
    return kSuccess;
  });
}

CUDA_API cuGraphExecDestroy(CUgraphExec graph) {
  return entry(__func__, [&](Context &context) { return context.graphs.erase(graph) ? kSuccess : kInvalidHandle; });
}

CUDA_API cuGraphDestroy(CUgraph graph) {
  return entry(__func__, [&](Context &context) { return context.graphs.erase(graph) ? kSuccess : kInvalidHandle; });
}
