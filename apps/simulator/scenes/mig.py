"""12 MIG and shared nodes; 7 x 1g.10gb and 2 x 3g.40gb wait while other instances idle; one node is idle.

The GPU operator looks after all of them. On two nodes nobody tells who holds what.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from apps.simulator.hardware import MODELS
from apps.simulator.mig.offers import resource_of
from apps.simulator.scenes.builder import SceneBuilder
from apps.simulator.scenes.gpu_operator import add_mig_node, add_operator, config_text
from apps.simulator.scenes.owners import Owner, make_template

Json = dict[str, Any]

OWN_CONFIGS = """
  # This cluster's own
  half-1g.10gb:
    - devices: [0, 1, 2, 3]
      mig-enabled: true
      mig-devices:
        "1g.10gb": 7
    - devices: [4, 5, 6, 7]
      mig-enabled: false

  gpu5-1g.10gb:
    - devices: [0, 1, 2, 3, 4, 6, 7]
      mig-enabled: false
    - devices: [5]
      mig-enabled: true
      mig-devices:
        "1g.10gb": 7

  all-3g-4g:
    - devices: all
      mig-enabled: true
      mig-devices:
        "3g.40gb": 1
        "4g.40gb": 1

  2g-and-others:
    - devices: [0, 2, 3, 5, 6, 7]
      mig-enabled: true
      mig-devices:
        "2g.20gb": 3
    - devices: [1, 4]
      mig-enabled: true
      mig-devices:
        "1g.10gb": 4
        "3g.40gb": 1

  split:
    - devices: [0, 1, 2, 3]
      mig-enabled: false
    - devices: [4, 5]
      mig-enabled: true
      mig-devices:
        "1g.10gb": 7
    - devices: [6, 7]
      mig-enabled: true
      mig-devices:
        "3g.40gb": 2

  uneven:
    - devices: [0, 1, 2, 3]
      mig-enabled: true
      mig-devices:
        "1g.10gb": 7
    - devices: [4, 5, 6, 7]
      mig-enabled: true
      mig-devices:
        "3g.40gb": 2
"""


class _Node(NamedTuple):
    name: str
    model: str
    config: str
    more: dict[str, Any] = {}


A100, H800 = "a100-sxm4-80gb", "h800"
NODES = (
    _Node("mig-01", A100, "half-1g.10gb"),
    _Node("mig-02", A100, "all-balanced"),
    _Node("mig-03", A100, "all-3g-4g"),
    _Node("mig-04", A100, "all-2g.20gb"),
    _Node("mig-05", A100, "split"),
    _Node("mig-06", A100, "split", {"has_agent": False}),
    _Node("mig-07", A100, "all-2g.20gb", {"has_agent": False}),
    _Node("mig-idle", A100, "all-disabled"),
    _Node("mig-h800", H800, "all-3g.40gb"),
    _Node("mig-single", A100, "all-1g.10gb", {"strategy": "single"}),
    _Node("mig-invalid", A100, "uneven", {"strategy": "single"}),
    _Node("shared-01", "l40s", "", {"sharing": "time-slicing:4", "has_agent": False}),
)
# name: (kind, namespace, resource, pods as (node, GPU to begin with or None, how many))
_Places = tuple[tuple[str, int | None, int], ...]
_WORKLOADS: dict[str, tuple[str, str, str, _Places]] = {
    "embedder": (
        "Deployment",
        "serving",
        resource_of("1g.10gb"),
        (("mig-01", None, 28), ("mig-05", None, 14), ("mig-06", None, 14)),
    ),
    "reranker": ("Deployment", "serving", resource_of("1g.10gb"), (("mig-02", None, 16),)),
    "chat-small": (
        "StatefulSet",
        "serving",
        resource_of("3g.40gb"),
        (("mig-02", None, 8), ("mig-03", None, 8), ("mig-05", None, 4), ("mig-06", None, 4)),
    ),
    "chat-h800": ("Deployment", "serving", resource_of("3g.40gb"), (("mig-h800", 0, 3), ("mig-h800", 4, 2))),
    "tuner-4g": ("StatefulSet", "research", resource_of("4g.40gb"), (("mig-03", 1, 1), ("mig-03", 6, 2))),
    "asr": (
        "Deployment",
        "media",
        resource_of("2g.20gb"),
        (("mig-02", 0, 6), ("mig-04", 0, 2), ("mig-04", 2, 3), ("mig-04", 5, 1), ("mig-07", None, 5)),
    ),
    "notebook-mig": ("StatefulSet", "dev", resource_of("2g.20gb"), (("mig-04", 3, 1), ("mig-04", 6, 1))),
    "trainer": ("Job", "research", "nvidia.com/gpu", (("mig-05", None, 3), ("mig-06", None, 2))),
    "legacy-infer": ("Deployment", "serving", "nvidia.com/gpu", (("mig-single", None, 30),)),
    "thumbnails": ("Deployment", "media", "nvidia.com/gpu", (("shared-01", None, 9),)),
}
_SELECTORS = {
    "chat-h800": {"nvidia.com/gpu.product": MODELS[H800].product},
    "legacy-infer": {"nvidia.com/mig.strategy": "single"},
    "thumbnails": {"nvidia.com/gpu.product": f"{MODELS['l40s'].product}-SHARED"},
    "trainer": {"nvidia.com/mig.config": "split"},
}


def build() -> list[Json]:
    scene = SceneBuilder(seed=29)
    text = config_text(OWN_CONFIGS)
    for number, node in enumerate(NODES):
        place = {"pool": "mig", "rack": f"m{number // 4 + 1}", "zone": "east-1a"}
        add_mig_node(scene, node.name, node.model, node.config, text, place=place, **node.more)
    add_operator(scene, text)
    for name, (kind, namespace, resource, places) in _WORKLOADS.items():
        owner = scene.add_owner(Owner(kind, namespace, name, _template(name, kind, resource)))
        for node_name, gpu, count in places:
            for _ in range(count):
                scene.put_anywhere(owner, node_name, gpu)
        if kind == "Deployment":
            scene.add_budget(owner, maxUnavailable=1)
    _add_waiting(scene)
    return scene.build()


def _template(name: str, kind: str, resource: str) -> Json:
    return make_template(
        name,
        gpus=1,
        resource=resource,
        cpu=1,
        memory_gib=8,
        restart="Never" if kind == "Job" else "Always",
        selector=_SELECTORS.get(name),
        annotations={"defrag.gpu.internal/protect": "true"} if name.startswith("notebook") else None,
    )


def _add_waiting(scene: SceneBuilder) -> None:
    for name, kind, profile, count, minutes in (
        ("ocr", "Deployment", "1g.10gb", 7, 34),
        ("chat-next", "StatefulSet", "3g.40gb", 2, 21),
    ):
        template = _template(name, kind, resource_of(profile))
        # Instances of the H800 are no substitute here.
        template["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": MODELS[A100].product}
        owner = scene.add_owner(Owner(kind, "serving", name, template, age_days=minutes / 1440))
        message = (
            f"0/12 nodes are available: 4 node(s) didn't match Pod's node affinity/selector, "
            f"8 Insufficient {resource_of(profile)}. preemption: 0/12 nodes are available: "
            "12 No preemption victims found for incoming pod."
        )
        for _ in range(count):
            scene.put_pending(owner, minutes, message)
