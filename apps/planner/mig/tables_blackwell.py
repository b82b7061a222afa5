"""MIG placement tables, Blackwell: B200, GB200, B300, GB300. Facts with their certainty and sources."""

from apps.planner.mig.models import Certainty, Engines, MigModel, Profile

B200_180GB = MigModel(
    name="B200-180GB",
    architecture="Blackwell GB100",
    memory_gb=180,
    axis=8,
    compute_slices=7,
    aliases=("B200",),
    names=Certainty.RECORDED,
    placements=Certainty.INFERRED,
    sources=("UG", "MPC", "INF"),
    note=("Start slices follow from the fractions (x/8), as on A100 and H100."),
    profiles=(
        Profile("1g.23gb", None, 1, 1, (0, 1, 2, 3, 4, 5, 6), 7, 23, None, None, Engines(1, 0, 1, 0, 2)),
        Profile(
            "1g.23gb+me",
            None,
            1,
            1,
            (0, 1, 2, 3, 4, 5, 6),
            1,
            23,
            None,
            None,
            Engines(1, 0, 1, 1, 2),
            media=True,
        ),
        Profile("1g.45gb", None, 1, 2, (0, 2, 4, 6), 4, 45, None, None, Engines(1, 0, 1, 0, 2)),
        Profile("2g.45gb", None, 2, 2, (0, 2, 4), 3, 45, None, None, Engines(1, 0, 1, 0, 3)),
        Profile("3g.90gb", None, 3, 4, (0, 4), 2, 90, None, None, Engines(1, 0, 1, 0, 6)),
        Profile("4g.90gb", None, 4, 4, (0,), 1, 90, None, None, Engines(1, 0, 1, 0, 8)),
        Profile("7g.180gb", None, 7, 8, (0,), 1, 180, None, None, Engines(1, 0, 1, 1, 16)),
    ),
)

GB200_186GB = MigModel(
    name="GB200-186GB",
    architecture="Blackwell GB100",
    memory_gb=186,
    axis=8,
    compute_slices=7,
    aliases=("GB200",),
    names=Certainty.PARTLY,
    placements=Certainty.INFERRED,
    sources=("MPC", "INF"),
    note=(
        "The guide has no table; names from mig-parted (a 189 GB variant has 1g.24gb, 1g.47gb, "
        "2g.47gb, 3g.95gb, 4g.95gb, 7g.189gb)."
    ),
    profiles=(
        Profile("1g.23gb", None, 1, 1, (0, 1, 2, 3, 4, 5, 6), 7, 23, None, None, Engines(1, 0, 1, 0, None)),
        Profile(
            "1g.23gb+me",
            None,
            1,
            1,
            (0, 1, 2, 3, 4, 5, 6),
            1,
            23,
            None,
            None,
            Engines(1, 0, 1, 1, None),
            media=True,
        ),
        Profile("1g.47gb", None, 1, 2, (0, 2, 4, 6), 4, 47, None, None, Engines(1, 0, 1, 0, None)),
        Profile("2g.47gb", None, 2, 2, (0, 2, 4), 3, 47, None, None, Engines(1, 0, 1, 0, None)),
        Profile("3g.93gb", None, 3, 4, (0, 4), 2, 93, None, None, Engines(1, 0, 1, 0, None)),
        Profile("4g.93gb", None, 4, 4, (0,), 1, 93, None, None, Engines(1, 0, 1, 0, None)),
        Profile("7g.186gb", None, 7, 8, (0,), 1, 186, None, None, Engines(1, 0, 1, 1, None)),
    ),
)

B300_269GB = MigModel(
    name="B300-269GB",
    architecture="Blackwell Ultra",
    memory_gb=269,
    axis=8,
    compute_slices=7,
    aliases=("B300", "B300-SXM6-AC"),
    names=Certainty.PARTLY,
    placements=Certainty.INFERRED,
    sources=("MPC", "INF"),
    note=("Names and counts from mig-parted; start slices inferred."),
    profiles=(
        Profile("1g.34gb", None, 1, 1, (0, 1, 2, 3, 4, 5, 6), 7, 34, None, None, Engines(1, 0, 1, 0, None)),
        Profile(
            "1g.34gb+me",
            None,
            1,
            1,
            (0, 1, 2, 3, 4, 5, 6),
            1,
            34,
            None,
            None,
            Engines(1, 0, 1, 1, None),
            media=True,
        ),
        Profile("1g.67gb", None, 1, 2, (0, 2, 4, 6), 4, 67, None, None, Engines(1, 0, 1, 0, None)),
        Profile("2g.67gb", None, 2, 2, (0, 2, 4), 3, 67, None, None, Engines(1, 0, 1, 0, None)),
        Profile("3g.135gb", None, 3, 4, (0, 4), 2, 135, None, None, Engines(1, 0, 1, 0, None)),
        Profile("4g.135gb", None, 4, 4, (0,), 1, 135, None, None, Engines(1, 0, 1, 0, None)),
        Profile("7g.269gb", None, 7, 8, (0,), 1, 269, None, None, Engines(1, 0, 1, 1, None)),
    ),
)

GB300_278GB = MigModel(
    name="GB300-278GB",
    architecture="Blackwell Ultra",
    memory_gb=278,
    axis=8,
    compute_slices=7,
    aliases=("GB300",),
    names=Certainty.PARTLY,
    placements=Certainty.INFERRED,
    sources=("MPC", "INF"),
    note=("Names and counts from mig-parted; start slices inferred."),
    profiles=(
        Profile("1g.35gb", None, 1, 1, (0, 1, 2, 3, 4, 5, 6), 7, 35, None, None, Engines(1, 0, 1, 0, None)),
        Profile(
            "1g.35gb+me",
            None,
            1,
            1,
            (0, 1, 2, 3, 4, 5, 6),
            1,
            35,
            None,
            None,
            Engines(1, 0, 1, 1, None),
            media=True,
        ),
        Profile("1g.70gb", None, 1, 2, (0, 2, 4, 6), 4, 70, None, None, Engines(1, 0, 1, 0, None)),
        Profile("2g.70gb", None, 2, 2, (0, 2, 4), 3, 70, None, None, Engines(1, 0, 1, 0, None)),
        Profile("3g.139gb", None, 3, 4, (0, 4), 2, 139, None, None, Engines(1, 0, 1, 0, None)),
        Profile("4g.139gb", None, 4, 4, (0,), 1, 139, None, None, Engines(1, 0, 1, 0, None)),
        Profile("7g.278gb", None, 7, 8, (0,), 1, 278, None, None, Engines(1, 0, 1, 1, None)),
    ),
)

MODELS = (
    B200_180GB,
    GB200_186GB,
    B300_269GB,
    GB300_278GB,
)
