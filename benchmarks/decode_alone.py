"""Decodes a stream with one thread, as the service's process does, and nothing else. whole_frames.py runs it.

    python benchmarks/decode_alone.py ADDRESS FILE

Adds a line to the file for each picture.
"""

import sys
from pathlib import Path

import av


def main(address: str, path: str) -> None:
    """Decode until the stream ends."""
    options = {"analyzeduration": "500000"}
    with av.open(address, options=options) as container, Path(path).open("ab", buffering=0) as lines:
        video = container.streams.video[0]
        video.codec_context.thread_count = 1
        for packet in container.demux(video):
            for _ in video.codec_context.decode(packet):
                lines.write(b"\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
