"""MIG placement tables, Hopper: H100, GH200, H200. Facts with their certainty and sources."""

from apps.planner.mig.models import Certainty, Engines, MigModel, Profile

H100_80GB = MigModel(
    name="H100-80GB",
    architecture="Hopper GH100",
    memory_gb=80,
    axis=8,
    compute_slices=7,
    aliases=("H100-80GB-HBM3", "H100-PCIE", "H800", "H800-PCIE"),
    names=Certainty.RECORDED,
    placements=Certainty.RECORDED,
    sources=("UG", "H100P", "H100L"),
    note=(
        "Multiprocessors are those of the SXM5 board (132); the PCIe board has 114. 1g.20gb has "
        "more of them (26) than 1g.10gb. A mock NVML that gives 3g three slices and 1g.20gb one "
        "contradicts the recorded listings."
    ),
    profiles=(
        Profile("1g.10gb", 19, 1, 1, (0, 1, 2, 3, 4, 5, 6), 7, 10, 9.75, 16, Engines(1, 0, 1, 0, 1)),
        Profile(
            "1g.10gb+me", 20, 1, 1, (0, 1, 2, 3, 4, 5, 6), 1, 10, 9.75, 16, Engines(1, 0, 1, 1, 1), media=True
        ),
        Profile("1g.20gb", 15, 1, 2, (0, 2, 4, 6), 4, 20, 19.62, 26, Engines(1, 0, 1, 0, 1)),
        Profile("2g.20gb", 14, 2, 2, (0, 2, 4), 3, 20, 19.62, 32, Engines(2, 0, 2, 0, 2)),
        Profile("3g.40gb", 9, 3, 4, (0, 4), 2, 40, 39.5, 60, Engines(3, 0, 3, 0, 3)),
        Profile("4g.40gb", 5, 4, 4, (0,), 1, 40, 39.5, 64, Engines(4, 0, 4, 0, 4)),
        Profile("7g.80gb", 0, 7, 8, (0,), 1, 80, 79.25, 132, Engines(7, 0, 7, 1, 8)),
    ),
)

H100_94GB = MigModel(
    name="H100-94GB",
    architecture="Hopper GH100",
    memory_gb=94,
    axis=8,
    compute_slices=7,
    aliases=("H100-NVL", "H100-SXM5-94GB", "H800-NVL"),
    names=Certainty.RECORDED,
    placements=Certainty.RECORDED,
    sources=("UG", "H100P", "NVL"),
    note="",
    profiles=(
        Profile("1g.12gb", 19, 1, 1, (0, 1, 2, 3, 4, 5, 6), 7, 12, None, 16, Engines(1, 0, 1, 0, 1)),
        Profile(
            "1g.12gb+me", 20, 1, 1, (0, 1, 2, 3, 4, 5, 6), 1, 12, None, 16, Engines(1, 0, 1, 1, 1), media=True
        ),
        Profile("1g.24gb", 15, 1, 2, (0, 2, 4, 6), 4, 24, None, 26, Engines(1, 0, 1, 0, 1)),
        Profile("2g.24gb", 14, 2, 2, (0, 2, 4), 3, 24, None, 32, Engines(2, 0, 2, 0, 2)),
        Profile("3g.47gb", 9, 3, 4, (0, 4), 2, 47, 46.38, 60, Engines(3, 0, 3, 0, 3)),
        Profile("4g.47gb", 5, 4, 4, (0,), 1, 47, 46.38, 64, Engines(4, 0, 4, 0, 4)),
        Profile("7g.94gb", 0, 7, 8, (0,), 1, 94, 93.12, 132, Engines(7, 0, 7, 1, 8)),
    ),
)

H100_96GB = MigModel(
    name="H100-96GB",
    architecture="Hopper GH100 (GH200)",
    memory_gb=96,
    axis=8,
    compute_slices=7,
    aliases=("GH200-480GB", "GH200-96GB", "H20-96GB"),
    names=Certainty.RECORDED,
    placements=Certainty.INFERRED,
    sources=("UG", "GH", "INF"),
    note=("The H100 96GB on GH200; H20 96GB uses the same names. Start slices as on the H100 80GB and 94GB."),
    profiles=(
        Profile("1g.12gb", 19, 1, 1, (0, 1, 2, 3, 4, 5, 6), 7, 12, None, 16, Engines(1, 0, 1, 0, 1)),
        Profile(
            "1g.12gb+me", 20, 1, 1, (0, 1, 2, 3, 4, 5, 6), 1, 12, None, 16, Engines(1, 0, 1, 1, 1), media=True
        ),
        Profile("1g.24gb", 15, 1, 2, (0, 2, 4, 6), 4, 24, 23.0, 26, Engines(1, 0, 1, 0, 1)),
        Profile("2g.24gb", 14, 2, 2, (0, 2, 4), 3, 24, 23.0, 32, Engines(2, 0, 2, 0, 2)),
        Profile("3g.48gb", 9, 3, 4, (0, 4), 2, 48, 46.5, 60, Engines(3, 0, 3, 0, 3)),
        Profile("4g.48gb", 5, 4, 4, (0,), 1, 48, 46.5, 64, Engines(4, 0, 4, 0, 4)),
        Profile("7g.96gb", 0, 7, 8, (0,), 1, 96, 93.0, 132, Engines(7, 0, 7, 1, 8)),
    ),
)

GH200_144GB = MigModel(
    name="GH200-144GB",
    architecture="Hopper GH100 (GH200 HBM3e)",
    memory_gb=144,
    axis=8,
    compute_slices=7,
    aliases=("GH200-144G-HBM3E",),
    names=Certainty.UNCERTAIN,
    placements=Certainty.UNCERTAIN,
    sources=("INF",),
    note=(
        "The guide has no table for it; names are extrapolated. Ask the driver of the node before "
        "relying on it."
    ),
    profiles=(
        Profile("1g.18gb", 19, 1, 1, (0, 1, 2, 3, 4, 5, 6), 7, 18, None, 16, Engines(1, 0, 1, 0, 1)),
        Profile(
            "1g.18gb+me", 20, 1, 1, (0, 1, 2, 3, 4, 5, 6), 1, 18, None, 16, Engines(1, 0, 1, 1, 1), media=True
        ),
        Profile("1g.36gb", 15, 1, 2, (0, 2, 4, 6), 4, 36, None, 26, Engines(1, 0, 1, 0, 1)),
        Profile("2g.36gb", 14, 2, 2, (0, 2, 4), 3, 36, None, 32, Engines(2, 0, 2, 0, 2)),
        Profile("3g.72gb", 9, 3, 4, (0, 4), 2, 72, None, 60, Engines(3, 0, 3, 0, 3)),
        Profile("4g.72gb", 5, 4, 4, (0,), 1, 72, None, 64, Engines(4, 0, 4, 0, 4)),
        Profile("7g.144gb", 0, 7, 8, (0,), 1, 144, None, 132, Engines(7, 0, 7, 1, 8)),
    ),
)

H200_141GB = MigModel(
    name="H200-141GB",
    architecture="Hopper GH100",
    memory_gb=141,
    axis=8,
    compute_slices=7,
    aliases=("H200", "H200-NVL"),
    names=Certainty.RECORDED,
    placements=Certainty.INFERRED,
    sources=("UG", "INF"),
    note=("Start slices as on the H100 (same die and fractions); multiprocessors those of the H100 SXM5."),
    profiles=(
        Profile("1g.18gb", 19, 1, 1, (0, 1, 2, 3, 4, 5, 6), 7, 18, None, 16, Engines(1, 0, 1, 0, 1)),
        Profile(
            "1g.18gb+me", 20, 1, 1, (0, 1, 2, 3, 4, 5, 6), 1, 18, None, 16, Engines(1, 0, 1, 1, 1), media=True
        ),
        Profile("1g.35gb", 15, 1, 2, (0, 2, 4, 6), 4, 35, None, 26, Engines(1, 0, 1, 0, 1)),
        Profile("2g.35gb", 14, 2, 2, (0, 2, 4), 3, 35, None, 32, Engines(2, 0, 2, 0, 2)),
        Profile("3g.71gb", 9, 3, 4, (0, 4), 2, 71, None, 60, Engines(3, 0, 3, 0, 3)),
        Profile("4g.71gb", 5, 4, 4, (0,), 1, 71, None, 64, Engines(4, 0, 4, 0, 4)),
        Profile("7g.141gb", 0, 7, 8, (0,), 1, 141, None, 132, Engines(7, 0, 7, 1, 8)),
    ),
)

MODELS = (
    H100_80GB,
    H100_94GB,
    H100_96GB,
    GH200_144GB,
    H200_141GB,
)
