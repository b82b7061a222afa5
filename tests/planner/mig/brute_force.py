"""The best choice of layouts, by trying every one. For a few small GPUs and two groups of nodes."""

from collections import Counter
from itertools import product

from apps.planner.mig.layouts import counts_of, list_layouts, uncut_slices


def every_target(model, profiles):
    """Every non-empty layout, full or not, by its instances, with what it leaves uncut."""
    found = {}
    for layout in list_layouts(model, profiles):
        if layout:
            found[counts_of(layout)] = uncut_slices(model, layout)
    return list(found.items())


def best_choice(blocks, wants, profiles, max_moves=None):
    """(unmet compute slices by rank, reconfigurations, moves, whole GPUs cut, more left uncut)."""
    options = [
        [None] if block.fixed else [None, *every_target(block.gpus[0].model, profiles)] for block in blocks
    ]
    best = None
    for choice in product(*options):
        moves = sum(block.pods for block, new in zip(blocks, choice, strict=True) if new)
        if max_moves is not None and moves > max_moves:
            continue
        unmet = _unmet(blocks, choice, wants)
        if unmet is None:
            continue
        changed = [(block.gpus[0], new) for block, new in zip(blocks, choice, strict=True) if new]
        score = (
            unmet,
            len(changed),
            moves,
            sum(gpu.whole for gpu, _ in changed),
            sum(new[1] - gpu.uncut for gpu, new in changed),
        )
        if best is None or score < best:
            best = score
    return best


def _unmet(blocks, choice, wants):
    """Compute slices that stay unmet, by rank; None if a moved pod finds no instance."""
    early, final, moved = Counter(), Counter(), Counter()
    closed = {block.site for block, new in zip(blocks, choice, strict=True) if new and block.used} - {""}
    for block, new in zip(blocks, choice, strict=True):
        for profile, number in new[0] if new else block.idle.items():
            final[block.group, profile] += number
            if not (new and block.used) and block.site not in closed:
                early[block.group, profile] += number
        if new:
            for shape, number in block.used:
                moved[shape] += number
    lost = Counter()
    for profile in {shape[0] for shape in moved} | {want.shape[0] for want in wants}:
        part = _unmet_of(profile, early, final, moved, wants)
        if part is None:
            return None
        lost.update(part)
    return tuple(lost[rank] for rank in sorted({want.rank for want in wants}))


def _unmet_of(profile, early, final, moved, wants):
    """Tries every way to spread pods over the groups "a" and "b"; wants by rank, one pod at a time."""
    left = tuple(final[group, profile] for group in "ab")
    states = {left}
    soon = tuple(early[group, profile] for group in "ab")
    starts = {(soon, left)}
    for shape, number in moved.items():
        if shape[0] != profile:
            continue
        for _ in range(number):
            starts = {
                (_less(soon, at), _less(left, at))
                for soon, left in starts
                for at in range(2)
                if "ab"[at] in shape[1] and soon[at] > 0 and left[at] > 0
            }
    states = {left for _, left in starts}
    if not states:
        return None
    lost = Counter()
    for want in sorted(wants, key=lambda one: one.rank):
        if want.shape[0] != profile:
            continue
        for _ in range(want.number):
            after = {
                _less(left, at)
                for left in states
                for at in range(2)
                if "ab"[at] in want.shape[1] and left[at] > 0
            }
            if after:
                states = after
            else:
                lost[want.rank] += want.worth
    return lost


def _less(numbers, at):
    return tuple(number - (place == at) for place, number in enumerate(numbers))
