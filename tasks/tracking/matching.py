"""Which box belongs to which object: overlaps in integers, and the pairs with the greatest sum of overlaps."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
WHOLE = 1 << 16
"""The overlap of equal boxes."""
_FAR = 1 << 62


def overlaps(first: Integers, second: Integers) -> Integers:
    """Intersection over union [n, m] of boxes [n, 4] and [m, 4] below 2**22, of WHOLE, rounded down."""
    x0, y0, x1, y1 = first.T[:, :, np.newaxis]
    left, top, right, bottom = second.T
    shared = np.maximum(np.minimum(x1, right) - np.maximum(x0, left), 0)
    shared *= np.maximum(np.minimum(y1, bottom) - np.maximum(y0, top), 0)
    union = _areas(first)[:, np.newaxis] + _areas(second) - shared
    found: Integers = (shared << 16) // np.maximum(union, 1)
    return found


def widened(boxes: Integers, percent: int) -> Integers:
    """Boxes [n, 4] with this share of their sides added at each edge (Yang et al. 2023: buffered overlap)."""
    more = (boxes[:, 2:] - boxes[:, :2]) * percent // 100
    return np.concatenate([boxes[:, :2] - more, boxes[:, 2:] + more], axis=1)


def _areas(boxes: Integers) -> Integers:
    area: Integers = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    return area


def best_pairs(values: Integers, least: int) -> list[tuple[int, int]]:
    """The pairs (row, column), each row and column at most once, whose values above `least` have the greatest sum.

    values: [n, m]; only those of at least `least` count, and each counts as value - least + 1. Among equal sums the
    first found is taken: the result depends on the order of rows and columns, and on nothing else. Pairs that share no
    row or column, also not by way of others, are decided apart, so that most are decided at once.
    """
    worth = values - (least - 1)
    rows, columns = (worth > 0).nonzero()
    alone = (np.bincount(rows)[rows] == 1) & (np.bincount(columns)[columns] == 1)
    pairs = list(zip(rows[alone].tolist(), columns[alone].tolist(), strict=True))
    rows, columns = rows[~alone], columns[~alone]
    keys = zip(rows.tolist(), columns.tolist(), strict=True)
    edges = dict(zip(keys, worth[rows, columns].tolist(), strict=True))
    for some_rows, some_columns in _groups(edges):
        part = [[edges.get((row, column), 0) for column in some_columns] for row in some_rows]
        turned = len(some_rows) > len(some_columns)
        for i, j in enumerate(_assigned([list(column) for column in zip(*part, strict=True)] if turned else part)):
            row, column = (j, i) if turned else (i, j)
            if part[row][column]:
                pairs.append((some_rows[row], some_columns[column]))
    return sorted(pairs)


def _groups(edges: Iterable[tuple[int, int]]) -> list[tuple[list[int], list[int]]]:
    """Rows and columns that edges (row, column) join, each group ascending, ordered by its first row."""
    by_row: dict[int, list[int]] = {}
    by_column: dict[int, list[int]] = {}
    for row, column in edges:
        by_row.setdefault(row, []).append(column)
        by_column.setdefault(column, []).append(row)
    groups, seen = [], set[int]()
    for start in by_row:
        if start in seen:
            continue
        seen.add(start)
        waiting, some_rows, some_columns = [start], [start], set[int]()
        while waiting:
            for column in by_row[waiting.pop()]:
                if column not in some_columns:
                    some_columns.add(column)
                    new = [row for row in by_column[column] if row not in seen]
                    seen.update(new)
                    some_rows += new
                    waiting += new
        groups.append((sorted(some_rows), sorted(some_columns)))
    return groups


def _assigned(worth: list[list[int]]) -> list[int]:
    """The column of each row with the greatest sum; n rows, m >= n columns, worth of at least 0.

    The Hungarian method with potentials (Kuhn 1955; shortest augmenting paths, Jonker and Volgenant 1987). It begins
    with each row's best column where that is free.
    """
    n, m = len(worth), len(worth[0])
    cost = [[-value for value in row] for row in worth]
    potential, price = [min(row) for row in cost], [0] * m
    owner = [-1] * m
    free = []
    for i, row in enumerate(cost):
        best = row.index(potential[i])
        if owner[best] < 0:
            owner[best] = i
        else:
            free.append(i)
    for i in free:
        _augment(i, cost, potential, price, owner)
    column_of = [0] * n
    for column, row_number in enumerate(owner):
        if row_number >= 0:
            column_of[row_number] = column
    return column_of


def _augment(start: int, cost: list[list[int]], potential: list[int], price: list[int], owner: list[int]) -> None:
    """Give a free row a column along the shortest path of reduced costs."""
    m = len(price)
    least, came_from, done = [_FAR] * m, [-1] * m, [False] * m
    row, last = start, -1
    while row >= 0:
        base, nearest, step = potential[row], -1, 0
        for j in range(m):
            if done[j]:
                continue
            reduced = cost[row][j] - base - price[j]
            if reduced < least[j]:
                least[j], came_from[j] = reduced, last
            if nearest < 0 or least[j] < step:
                nearest, step = j, least[j]
        potential[start] += step
        for j in range(m):
            if done[j]:
                potential[owner[j]] += step
                price[j] -= step
            else:
                least[j] -= step
        done[nearest] = True
        last, row = nearest, owner[nearest]
    while last >= 0:
        before = came_from[last]
        owner[last] = start if before < 0 else owner[before]
        last = before
