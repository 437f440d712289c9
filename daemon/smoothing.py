"""The smoothed label: it changes once enough of the last frames agree, and otherwise stays."""

from collections import Counter, deque


class Smoother:
    """N of M: the label becomes L when at least `agree` of the last `window` labels are L; `label` is None before."""

    def __init__(self, agree: int, window: int) -> None:
        self._agree = agree
        self._recent: deque[str] = deque(maxlen=window)
        self.label: str | None = None

    def look_back(self, agree: int, window: int) -> None:
        """Go by other numbers from the next frame on; the label and the labels looked back on stay."""
        self._agree = agree
        self._recent = deque(self._recent, maxlen=window)

    def add(self, label: str) -> bool:
        """Take one frame's label; return whether the smoothed label changed."""
        self._recent.append(label)
        if label == self.label or Counter(self._recent)[label] < self._agree:
            return False
        self.label = label
        return True
