"""Small simulated clusters with the GPU operator, in which a few pods wait for MIG instances."""

from __future__ import annotations

import json

from apps.simulator.mig.offers import resource_of
from apps.simulator.scenes.builder import SceneBuilder
from apps.simulator.scenes.gpu_operator import add_mig_node, add_operator, config_text
from apps.simulator.scenes.owners import Owner, make_template

A100 = "a100-sxm4-80gb"
PLACE = {"pool": "mig", "rack": "m1", "zone": "east-1a"}
GPU_5 = """
  gpu5-1g.10gb:
    - devices: [0, 1, 2, 3, 4, 6, 7]
      mig-enabled: false
    - devices: [5]
      mig-enabled: true
      mig-devices: {"1g.10gb": 7}
"""
SEVENS = """
  gpu3-3g.40gb:
    - {devices: [3], mig-enabled: true, mig-devices: {"3g.40gb": 2}}
    - {devices: [0, 1, 2, 4, 5, 6, 7], mig-enabled: true, mig-devices: {"7g.80gb": 1}}
"""
GPU_0 = """
  gpu0-1g.10gb:
    - {devices: [0], mig-enabled: true, mig-devices: {"1g.10gb": 7}}
    - {devices: [1, 2, 3, 4, 5, 6, 7], mig-enabled: true, mig-devices: {"7g.80gb": 1}}
"""


def idle_node(folder):
    """8 idle GPUs, strategy mixed, no node agent; 7 pods wait for 1g.10gb. GPU 5 may be cut by name."""
    scene, text = SceneBuilder(seed=4), config_text(GPU_5)
    add_mig_node(scene, "mig-a", A100, "all-disabled", text, place=PLACE, has_agent=False)
    add_operator(scene, text)
    _wait_for_instances(scene, "ocr", 7)
    return _write(scene, folder)


def full_nodes(folder):
    """Two nodes of 7g.80gb, all used but GPU 3 of mig-a, which is cut otherwise; one pod of mig-b may move.

    7 pods wait for 1g.10gb, on mig-b only. The layout that mig-b needs has no name yet.
    """
    scene, text = SceneBuilder(seed=5), config_text(SEVENS)
    add_mig_node(scene, "mig-a", A100, "gpu3-3g.40gb", text, place=PLACE)
    add_mig_node(scene, "mig-b", A100, "all-7g.80gb", text, place=PLACE)
    add_operator(scene, text)
    stays = {"defrag.gpu.internal/protect": "true"}
    llm = scene.add_owner(Owner("StatefulSet", "serving", "llm", _template("llm", "7g.80gb", notes=stays)))
    chat = scene.add_owner(Owner("Deployment", "serving", "chat", _template("chat", "7g.80gb")))
    scene.put_anywhere(chat, "mig-b", 0)
    for node in ("mig-a", "mig-b"):
        for _ in range(7):
            scene.put_anywhere(llm, node, None)
    _wait_for_instances(scene, "ocr", 7, selector={"kubernetes.io/hostname": "mig-b"})
    return _write(scene, folder)


def _wait_for_instances(scene, name, count, selector=None):
    owner = Owner("Deployment", "serving", name, _template(name, "1g.10gb", selector=selector), age_days=0.02)
    scene.add_owner(owner)
    for _ in range(count):
        scene.put_pending(owner, 20, "0/1 nodes are available: 1 Insufficient nvidia.com/mig-1g.10gb.")


def _template(name, profile, *, selector=None, notes=None):
    return make_template(
        name,
        gpus=1,
        resource=resource_of(profile),
        cpu=1,
        memory_gib=4,
        selector=selector,
        annotations={"sim.gpu.internal/start-seconds": "1", **(notes or {})},
        grace=5,
    )


def _write(scene, folder):
    path = folder / "cluster.json"
    path.write_text(json.dumps({"items": scene.build()}))
    return path
