"""Newest frames: numbers, drops and the order of cameras."""

import threading
from itertools import pairwise

import numpy as np

from edgemeta.daemon.capture.latest_frames import CapturedFrame, LatestFrames
from edgemeta.daemon.capture.source import Frame


def frame(value: int = 0) -> Frame:
    return Frame(np.full((1, 1, 3), value, np.uint8), captured_ns=value)


def take(frames: LatestFrames) -> CapturedFrame:
    taken = frames.take()
    assert taken is not None
    return taken


def test_the_newest_frame_is_kept_and_the_others_are_counted() -> None:
    frames = LatestFrames(["a"])
    for value in (10, 11, 12):
        frames.put("a", frame(value))
    taken = take(frames)
    assert (taken.sequence, taken.superseded, taken.frame.captured_ns) == (3, 2, 12)
    frames.put("a", frame(13))
    taken = take(frames)
    assert (taken.sequence, taken.superseded) == (4, 2)
    assert frames.counts("a") == (4, 2, 0)


def test_a_frame_counts_only_the_drops_before_it() -> None:
    """What supersedes a frame after it was taken must not be in its own count: a subscriber adds these up."""
    frames = LatestFrames(["a"])
    frames.put("a", frame())
    first = take(frames)
    frames.put("a", frame())
    frames.put("a", frame())
    assert first.superseded == 0
    assert frames.counts("a") == (3, 1, 1)


def test_cameras_take_turns() -> None:
    frames = LatestFrames(["a", "b", "c"])
    order = []
    for _ in range(6):
        for camera in "abc":
            frames.put(camera, frame())
        order.append(take(frames).camera)
    assert order == ["a", "b", "c", "a", "b", "c"]


def test_close_ends_the_wait_and_later_frames_do_not_count() -> None:
    frames = LatestFrames(["a"])
    results: list[CapturedFrame | None] = []
    waiting = threading.Thread(target=lambda: results.append(frames.take()))
    waiting.start()
    frames.close()
    waiting.join(60)
    assert results == [None]
    frames.put("a", frame())
    assert frames.counts("a") == (0, 0, 0)


def test_many_threads_lose_no_frame() -> None:
    frames = LatestFrames(["a", "b"])
    taken: list[CapturedFrame] = []

    def worker() -> None:
        while (captured := frames.take()) is not None:
            taken.append(captured)

    reader = threading.Thread(target=worker)
    reader.start()
    writers = [
        threading.Thread(target=lambda camera=camera: [frames.put(camera, frame()) for _ in range(5000)])
        for camera in "ab"
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    frames.close()
    reader.join()
    for camera in "ab":
        captured, superseded, waiting = frames.counts(camera)
        mine = [one for one in taken if one.camera == camera]
        assert captured == 5000 == len(mine) + superseded + waiting
        for before, after in pairwise(mine):
            assert after.sequence - before.sequence - 1 == after.superseded - before.superseded


def test_put_when_free_loses_no_frame() -> None:
    frames = LatestFrames(["a"])
    taken: list[int] = []

    def worker() -> None:
        while (captured := frames.take()) is not None:
            taken.append(captured.sequence)

    reader = threading.Thread(target=worker)
    reader.start()
    for _ in range(2000):
        frames.put_when_free("a", frame())
    frames.put_when_free("a", frame())  # returns once the one before was taken
    frames.close()
    reader.join()
    captured, superseded, waiting = frames.counts("a")
    assert (captured, superseded) == (2001, 0)
    assert taken == list(range(1, 2002 - waiting))


def test_close_ends_the_wait_of_put_when_free() -> None:
    frames = LatestFrames(["a"])
    frames.put("a", frame())
    waiting = threading.Thread(target=frames.put_when_free, args=("a", frame()))
    waiting.start()
    frames.close()
    waiting.join(60)
    assert not waiting.is_alive()
    assert frames.counts("a") == (1, 0, 1)


def test_more_frames_are_taken_of_named_cameras_only_and_in_turn() -> None:
    frames = LatestFrames(["a", "b", "c", "d"])
    for camera in "abcd":
        frames.put(camera, frame())
    assert take(frames).camera == "a"
    assert [each.camera for each in frames.take_more(["d", "c"], 1, 0)] == ["c"]
    assert [each.camera for each in frames.take_more(["a", "c", "d"], 9, 0)] == ["d"]
    assert frames.take_more(["a", "c", "d"], 9, 0.001) == []
    assert take(frames).camera == "b"
    for camera in "dcba":
        frames.put(camera, frame())
    assert [take(frames).camera for _ in range(4)] == ["a", "c", "d", "b"], "as long as each has waited"


def test_more_frames_come_while_it_waits_and_an_end_ends_the_wait() -> None:
    frames = LatestFrames(["a", "b"])
    results: list[list[CapturedFrame]] = []
    waiting = threading.Thread(target=lambda: results.append(frames.take_more(["a", "b"], 2, 20)))
    waiting.start()
    frames.put("b", frame(7))
    frames.put("a", frame(8))
    waiting.join(10)
    assert sorted((each.camera, each.frame.captured_ns) for each in results[0]) == [("a", 8), ("b", 7)]
    waiting = threading.Thread(target=lambda: results.append(frames.take_more(["a", "b"], 2, 20)))
    waiting.start()
    frames.close()
    waiting.join(10)
    assert results[1] == []
