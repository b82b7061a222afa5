"""Draw a cluster whose GPUs are cut by MIG, so that tests read as sentences.

    mig_cluster({"n1": ["1g@0:a 1g@1 3g@4:B", "whole"]}, wanting("3g", 2))

Each GPU is a list of instances: compute slices, start slice, and who uses it. A lower-case user may
be moved, an upper-case one may not. Profiles are those of an A100-40GB.
"""

from dataclasses import replace

from apps.planner.inventory import Gpu, Holding, MigInstance, Node, Pod, Workload
from apps.planner.snapshot import Snapshot

PROFILES = {
    "1g": "1g.5gb",
    "1d": "1g.10gb",
    "2g": "2g.10gb",
    "3g": "3g.20gb",
    "4g": "4g.20gb",
    "7g": "7g.40gb",
}
GIB = 2**30


def mig_cluster(nodes, *waiting, facts=None, pods=None):
    """facts: changes to nodes by name; pods: changes to pods by name."""
    made_nodes, made_pods = {}, []
    for name, gpus in nodes.items():
        node, guests = _node(name, gpus)
        made_nodes[name] = replace(node, **(facts or {}).get(name, {}))
        made_pods += guests
    made_pods += [pod for group in waiting for pod in group]
    made_pods = [replace(pod, **(pods or {}).get(pod.name, {})) for pod in made_pods]
    owners = {pod.workload for pod in made_pods if pod.workload}
    return Snapshot(
        "drawn",
        100.0,
        nodes=made_nodes,
        pods={pod.uid: pod for pod in made_pods},
        workloads={uid: Workload(uid, "ReplicaSet", "team", uid) for uid in owners},
    )


def wanting(profile, count=1, name="", **changes):
    """Pending pods with one instance each; with a gang they start together."""
    asked = f"nvidia.com/mig-{PROFILES.get(profile, profile)}"
    made = []
    for number in range(count):
        called = f"{name or 'want-' + profile}-{number}"
        pod = Pod(
            uid=f"uid-{called}",
            namespace="team",
            name=called,
            requests={"cpu": 1000, "memory": GIB, asked: 1},
            workload=f"owner-{name or profile}",
            owner_kind="ReplicaSet",
        )
        made.append(replace(pod, **changes))
    return made


def _node(name, drawn):
    gpus, pods, holdings, offered, whole = [], [], [], {}, 0
    for index, text in enumerate(drawn):
        instances = []
        whole += text == "whole"
        for part in text.split() if text != "whole" else ():
            cut, _, user = part.partition(":")
            kind, _, start = cut.partition("@")
            profile = PROFILES[kind]
            uuid = f"MIG-{name}-{index}-{start}"
            instances.append(MigInstance(profile, int(start), uuid))
            resource = f"nvidia.com/mig-{profile}"
            offered[resource] = offered.get(resource, 0) + 1
            if user:
                pod = _guest(f"{name}-{user}", name, resource, user)
                pods.append(pod)
                holdings.append(Holding(pod.uid, uuid))
        gpus.append(Gpu(index, f"GPU-{name}-{index}", 40960, instances=tuple(instances)))
    allocatable = {
        "cpu": 64000,
        "memory": 512 * GIB,
        "pods": 110,
        "nvidia.com/gpu": whole,
        **offered,
    }
    node = Node(
        name,
        uid=f"uid-{name}",
        allocatable=allocatable,
        capacity=allocatable,
        vendor="nvidia",
        model="A100-SXM4-40GB",
        gpu_resource="nvidia.com/gpu",
        gpus=tuple(gpus),
        mig_strategy="mixed",
        holdings=tuple(holdings),
    )
    return node, pods


def _guest(name, node, resource, user):
    return Pod(
        uid=f"uid-{name}",
        namespace="team",
        name=name,
        node_name=node,
        phase="Running",
        ready=True,
        requests={"cpu": 1000, "memory": GIB, resource: 1},
        workload=f"owner-{name}",
        owner_kind="ReplicaSet",
        protections=("Its owner protects it.",) if user.isupper() else (),
    )
