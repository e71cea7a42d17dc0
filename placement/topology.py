"""Which whole GPUs of a node belong together."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(empty: Sequence[int], wanted: int) -> list[int]:
    """The slots to take of the empty ones: the smallest free aligned block that holds them, lowest first.

    Blocks are pairs, quads and so on, aligned to their size, as links between GPUs of a node are.  Where no
    free block is large enough, the first empty slots are taken.
    """
    free = set(empty)
    size = 1
    while size < wanted:
        size *= 2
    blocks = []
    for start in sorted({slot // size * size for slot in free}):
        if all(slot in free for slot in range(start, start + size)):
            around = size
            while all(
                slot in free
                for slot in range(
                    start // (2 * around) * 2 * around, start // (2 * around) * 2 * around + 2 * around
                )
            ):
                around *= 2
            blocks.append((around, start))
    if not blocks:
        return sorted(free)[:wanted]
    start = min(blocks)[1]
    return list(range(start, start + wanted))
