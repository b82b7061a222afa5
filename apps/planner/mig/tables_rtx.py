"""MIG placement tables, RTX PRO (Blackwell). Facts with their certainty and sources."""

from apps.planner.mig.models import Certainty, Engines, MigModel, Profile

RTX_PRO_6000_BLACKWELL_96GB = MigModel(
    name="RTX-PRO-6000-Blackwell-96GB",
    architecture="Blackwell GB202",
    memory_gb=96,
    axis=12,
    compute_slices=4,
    aliases=(
        "RTX-PRO-6000-BLACKWELL-SERVER-EDITION",
        "RTX-PRO-6000-BLACKWELL-WORKSTATION-EDITION",
        "RTX-PRO-6000-BLACKWELL-MAX-Q-WORKSTATION-EDITION",
    ),
    names=Certainty.RECORDED,
    placements=Certainty.RECORDED,
    sources=("UG", "RTX"),
    note=(
        "The axis has 12 slices, a 1g takes 3. Media engines are a pool (4 decoders, 4 encoders, 4 "
        "JPEG, 1 optical flow): beside a +me.all only -me instances fit. No peer access between "
        "instances."
    ),
    shares_engines=True,
    profiles=(
        Profile("1g.24gb", 14, 1, 3, (0, 3, 6, 9), 4, 24, 23.62, 46, Engines(1, 1, 1, 0, 1)),
        Profile("1g.24gb+me", 21, 1, 3, (0, 3, 6, 9), 1, 24, 23.62, 46, Engines(1, 1, 1, 1, 1), media=True),
        Profile("1g.24gb+gfx", 47, 1, 3, (0, 3, 6, 9), 4, 24, 23.62, 46, Engines(1, 1, 1, 0, 1)),
        Profile(
            "1g.24gb+me.all", 65, 1, 3, (0, 3, 6, 9), 1, 24, 23.62, 46, Engines(4, 4, 4, 1, 1), media=True
        ),
        Profile("1g.24gb-me", 67, 1, 3, (0, 3, 6, 9), 4, 24, 23.62, 46, Engines(0, 0, 0, 0, 1)),
        Profile("2g.48gb", 5, 2, 6, (0, 6), 2, 48, 47.38, 94, Engines(2, 2, 2, 0, 2)),
        Profile("2g.48gb+gfx", 35, 2, 6, (0, 6), 2, 48, 47.38, 94, Engines(2, 2, 2, 0, 2)),
        Profile("2g.48gb+me.all", 64, 2, 6, (0, 6), 1, 48, 47.38, 94, Engines(4, 4, 4, 1, 2), media=True),
        Profile("2g.48gb-me", 66, 2, 6, (0, 6), 2, 48, 47.38, 94, Engines(0, 0, 0, 0, 2)),
        Profile("4g.96gb", 0, 4, 12, (0,), 1, 96, 95.12, 188, Engines(4, 4, 4, 1, 4)),
        Profile("4g.96gb+gfx", 32, 4, 12, (0,), 1, 96, 95.12, 188, Engines(4, 4, 4, 1, 4)),
    ),
)

RTX_PRO_5000_BLACKWELL_48GB = MigModel(
    name="RTX-PRO-5000-Blackwell-48GB",
    architecture="Blackwell GB202",
    memory_gb=48,
    axis=2,
    compute_slices=2,
    aliases=(),
    names=Certainty.UNCERTAIN,
    placements=Certainty.UNCERTAIN,
    sources=("UG", "INF"),
    note=(
        "The guide's tables changed between releases and the axis is not known (2 used here). Ask "
        "the driver of the node."
    ),
    shares_engines=True,
    profiles=(
        Profile("1g.24gb", None, 1, 1, (0, 1), 2, 24, None, None, Engines(1, 1, 0, 0, 1)),
        Profile("1g.24gb+me", None, 1, 1, (0, 1), 1, 24, None, None, Engines(1, 1, 1, 1, 1), media=True),
        Profile("1g.24gb+gfx", None, 1, 1, (0, 1), 2, 24, None, None, Engines(1, 1, 0, 0, 1)),
        Profile("1g.24gb+me.all", None, 1, 1, (0, 1), 1, 24, None, None, Engines(3, 3, 1, 1, 1), media=True),
        Profile("1g.24gb-me", None, 1, 1, (0, 1), 2, 24, None, None, Engines(0, 0, 0, 0, 1)),
        Profile("2g.48gb", None, 2, 2, (0,), 1, 48, None, None, Engines(3, 3, 1, 1, 4)),
        Profile("2g.48gb+gfx", None, 2, 2, (0,), 1, 48, None, None, Engines(3, 3, 1, 1, 4)),
    ),
)

MODELS = (
    RTX_PRO_6000_BLACKWELL_96GB,
    RTX_PRO_5000_BLACKWELL_48GB,
)
