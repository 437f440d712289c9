"""ByteTrack of `boxmot`, for `tracking.py`: run by the interpreter that has it. No part of it is imported elsewhere.

Standard input: JSON with `size` (width, height), `frames` (boxes x0, y0, x1, y1, score of each frame) and `options`.
Standard output, last line: for each frame a list of id, x0, y0, x1, y1.
"""

import json
import sys

import numpy as np


def main() -> None:
    """Follow the boxes of standard input."""
    import boxmot
    from boxmot.trackers.box.bytetrack.tracker import ByteTrack

    given = json.load(sys.stdin)
    width, height = given["size"]
    picture = np.zeros((height, width, 3), np.uint8)
    tracker = ByteTrack(**given["options"])
    frames = []
    for boxes in given["frames"]:
        found = tracker.update(np.array([[*box, 0] for box in boxes], np.float32).reshape(-1, 6), picture)
        frames.append([[int(row[4]), *map(float, row[:4])] for row in np.asarray(found).reshape(-1, 8)])
    print(json.dumps({"version": boxmot.__version__, "frames": frames}))


if __name__ == "__main__":
    main()
