"""Names of the points that known families find, left and right as the person sees them."""

BODY = (
    "nose",
    *("left eye", "right eye", "left ear", "right ear", "left shoulder", "right shoulder", "left elbow", "right elbow"),
    *("left wrist", "right wrist", "left hip", "right hip", "left knee", "right knee", "left ankle", "right ankle"),
)
"""The 17 points of COCO, in its order."""
FACE = ("right eye", "left eye", "nose", "right mouth corner", "left mouth corner")
"""Of YuNet, SCRFD and RetinaFace."""
BLAZE_FACE = ("right eye", "left eye", "nose", "mouth", "right ear", "left ear")
"""MediaPipe's FaceKeypoint."""
BLAZE_PALM = (
    "wrist",
    *("index finger base", "middle finger base", "ring finger base", "little finger base"),
    *("thumb base", "thumb middle joint"),
)
"""MediaPipe's PalmDetection: carpal and metacarpophalangeal joints."""
BLAZE_POSE = ("hips", "circle around the body", "shoulders", "circle around the upper body")
"""MediaPipe's PoseDetection: centres of two circles, and a point on each."""


def named(count: int) -> tuple[str, ...]:
    """Names of as many points, where nothing else says them: those of COCO of 17, otherwise their numbers from 0."""
    return BODY if count == len(BODY) else tuple(f"point {number}" for number in range(count))
