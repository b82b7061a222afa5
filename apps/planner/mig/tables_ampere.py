"""MIG placement tables, Ampere: A30, A100. Facts with their certainty and sources."""

from apps.planner.mig.models import Certainty, Engines, MigModel, Profile

A30_24GB = MigModel(
    name="A30-24GB",
    architecture="Ampere GA100",
    memory_gb=24,
    axis=4,
    compute_slices=4,
    aliases=("A30",),
    names=Certainty.RECORDED,
    placements=Certainty.RECORDED,
    sources=("UG", "GN30", "A30P"),
    note=(
        "Drivers: 1g.6gb+me from R470, 2g.12gb+me from R525. Some drivers list a decoder for 1g.6gb "
        "where the guide has none."
    ),
    profiles=(
        Profile("1g.6gb", 14, 1, 1, (0, 1, 2, 3), 4, 6, 5.81, 14, Engines(0, 0, 0, 0, 1)),
        Profile("1g.6gb+me", 21, 1, 1, (0, 1, 2, 3), 1, 6, 5.81, 14, Engines(1, 0, 1, 1, 1), media=True),
        Profile("2g.12gb", 5, 2, 2, (0, 2), 2, 12, 11.69, 28, Engines(2, 0, 0, 0, 2)),
        Profile("2g.12gb+me", 6, 2, 2, (0, 2), 1, 12, 11.69, 28, Engines(2, 0, 1, 1, 2), media=True),
        Profile("4g.24gb", 0, 4, 4, (0,), 1, 24, 23.5, 56, Engines(4, 0, 1, 1, 4)),
    ),
)

A100_40GB = MigModel(
    name="A100-40GB",
    architecture="Ampere GA100",
    memory_gb=40,
    axis=8,
    compute_slices=7,
    aliases=("A100-SXM4-40GB", "A100-PCIE-40GB", "A800-SXM4-40GB", "A800-PCIE-40GB"),
    names=Certainty.RECORDED,
    placements=Certainty.RECORDED,
    sources=("UG", "UGP", "MP"),
    note=(
        "Drivers: 1g.5gb+me from R470, 1g.10gb from R525. The guide prints 1/8 of the memory for "
        "1g.10gb; size and starts say 2/8."
    ),
    profiles=(
        Profile("1g.5gb", 19, 1, 1, (0, 1, 2, 3, 4, 5, 6), 7, 5, 4.75, 14, Engines(0, 0, 0, 0, 1)),
        Profile(
            "1g.5gb+me", 20, 1, 1, (0, 1, 2, 3, 4, 5, 6), 1, 5, 4.75, 14, Engines(1, 0, 1, 1, 1), media=True
        ),
        Profile("1g.10gb", 15, 1, 2, (0, 2, 4, 6), 4, 10, 9.75, 14, Engines(1, 0, 0, 0, 1)),
        Profile("2g.10gb", 14, 2, 2, (0, 2, 4), 3, 10, 9.75, 28, Engines(1, 0, 0, 0, 2)),
        Profile("3g.20gb", 9, 3, 4, (0, 4), 2, 20, 19.62, 42, Engines(2, 0, 0, 0, 3)),
        Profile("4g.20gb", 5, 4, 4, (0,), 1, 20, 19.62, 56, Engines(2, 0, 0, 0, 4)),
        Profile("7g.40gb", 0, 7, 8, (0,), 1, 40, 39.25, 98, Engines(5, 0, 1, 1, 7)),
    ),
)

A100_80GB = MigModel(
    name="A100-80GB",
    architecture="Ampere GA100",
    memory_gb=80,
    axis=8,
    compute_slices=7,
    aliases=("A100-SXM4-80GB", "A100-PCIE-80GB", "A100-80GB-PCIE", "A800-SXM4-80GB", "A800-80GB-PCIE"),
    names=Certainty.RECORDED,
    placements=Certainty.RECORDED,
    sources=("UG", "UGP", "MP"),
    note=("Memory differs by driver (9.50 to 9.75 GiB seen for 1g.10gb). Some early drivers say 7g.79gb."),
    profiles=(
        Profile("1g.10gb", 19, 1, 1, (0, 1, 2, 3, 4, 5, 6), 7, 10, 9.62, 14, Engines(0, 0, 0, 0, 1)),
        Profile(
            "1g.10gb+me", 20, 1, 1, (0, 1, 2, 3, 4, 5, 6), 1, 10, 9.62, 14, Engines(1, 0, 1, 1, 1), media=True
        ),
        Profile("1g.20gb", 15, 1, 2, (0, 2, 4, 6), 4, 20, 19.5, 14, Engines(1, 0, 0, 0, 1)),
        Profile("2g.20gb", 14, 2, 2, (0, 2, 4), 3, 20, 19.5, 28, Engines(1, 0, 0, 0, 2)),
        Profile("3g.40gb", 9, 3, 4, (0, 4), 2, 40, 39.25, 42, Engines(2, 0, 0, 0, 3)),
        Profile("4g.40gb", 5, 4, 4, (0,), 1, 40, 39.25, 56, Engines(2, 0, 0, 0, 4)),
        Profile("7g.80gb", 0, 7, 8, (0,), 1, 80, 78.5, 98, Engines(5, 0, 1, 1, 7)),
    ),
)

MODELS = (
    A30_24GB,
    A100_40GB,
    A100_80GB,
)
