"""A GPU node of 4 GPUs and 2 NICs as the agent meets it: library, nvidia-smi, sysfs, kubelet, API server."""

import json
import stat
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from apps.kube.gateway import NODES, PODS
from apps.kube.translate import Translator
from apps.node_agent.agent import Agent, Places
from apps.node_agent.api_server import Account, ApiServer
from tests.kube.objects import node as make_node
from tests.kube.objects import pod as make_pod
from tests.node_agent.driver import Card, Library
from tests.node_agent.kubelet import Kubelet

UUIDS = [f"GPU-5f0e{index}a11-7c3d-4e2b-9f10-00000000000{index}" for index in range(4)]
BUSES = [f"00000000:{bus}:00.0" for bus in ("1D", "1E", "9A", "9B")]
LINKS = [
    ["X", "NV12", "SYS", "SYS"],
    ["NV12", "X", "SYS", "SYS"],
    ["SYS", "SYS", "X", "NV12"],
    ["SYS", "SYS", "NV12", "X"],
]
TOPO = """\
\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV12\tSYS\tSYS\tPXB\tSYS\t0-31,64-95\t0\t\tN/A
GPU1\tNV12\t X \tSYS\tSYS\tPXB\tSYS\t0-31,64-95\t0\t\tN/A
GPU2\tSYS\tSYS\t X \tNV12\tSYS\tNODE\t32-63,96-127\t1\t\tN/A
GPU3\tSYS\tSYS\tNV12\t X \tSYS\tNODE\t32-63,96-127\t1\t\tN/A
NIC0\tPXB\tPXB\tSYS\tSYS\t X \tSYS\t\t\t\t
NIC1\tSYS\tSYS\tNODE\tNODE\tSYS\t X \t\t\t\t

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_2
  NIC1: mlx5_5

"""
START = datetime(2026, 3, 1, 8, 0, 0, tzinfo=UTC)


def cards():
    return [Card(uuid, bus, minor=index) for index, (uuid, bus) in enumerate(zip(UUIDS, BUSES, strict=True))]


@dataclass
class Machine:
    folder: Path
    library: Library
    kubelet: Kubelet
    api: Any
    agent: Agent
    now: datetime = START

    def pass_time(self, seconds):
        self.now += timedelta(seconds=seconds)

    def add_pod(self, name, gpus=1, **changes):
        """On the API server; `give` lets the kubelet know it."""
        self.api.seed(make_pod(name, gpus=gpus, on="node-a", **changes))

    def give(self, *told):
        self.kubelet.pods = list(told)

    def node(self):
        return self.api.ask("GET", "/api/v1/nodes/node-a")

    def annotation(self, which):
        text = self.node()["metadata"].get("annotations", {}).get(f"topology.gpu.internal/{which}")
        return None if text is None else json.loads(text)

    def holders(self):
        """(uid, container, milli) by device."""
        devices = self.annotation("holders")["devices"]
        return {
            uuid: [(one["uid"], one["container"], one["milli"]) for one in held]
            for uuid, held in devices.items()
        }

    def patches(self):
        return self.api.requests("PATCH", "/nodes/node-a")

    def read_by_console(self):
        """The node as the console reads it a minute later."""
        pods = self.api.ask("GET", "/api/v1/pods")["items"]
        objects = {NODES: [self.node()], PODS: pods}
        snapshot = Translator().build("lab", objects, taken_at=self.now.timestamp() + 60)
        return snapshot.nodes["node-a"]

    def say_topo(self, text, code=0):
        put_program(self.folder / "nvidia-smi", text, code)


def make_machine(folder, api, kubelet):
    library = Library(cards())
    put_program(folder / "nvidia-smi", TOPO, 0)
    put_sysfs(folder / "sys")
    account = put_account(folder / "account", api)
    api.seed(make_node("node-a", gpus=4, annotations={"owner": "team-metal"}))
    places = Places(folder / "kubelet.sock", folder / "nvidia-smi", folder / "sys")
    machine = Machine(folder, library, kubelet, api, None)
    client = ApiServer(account, "node-a")
    machine.agent = Agent(client, places, clock=lambda: machine.now)
    return machine


def put_account(folder, api, token=""):
    folder.mkdir(exist_ok=True)
    credentials = api.credentials()
    (folder / "ca.crt").write_text(credentials.ca)
    (folder / "token").write_text((token or credentials.token) + "\n")
    host, _, port = credentials.server.removeprefix("https://").rpartition(":")
    return Account(host, int(port), folder)


def put_program(path, text, code):
    """Prints as `nvidia-smi topo -m` does, and refuses anything else."""
    path.with_suffix(".txt").write_text(text)
    path.write_text(
        f'#!/bin/sh\n[ "$*" = "topo -m" ] || exit 9\n/bin/cat "{path.with_suffix(".txt")}"\nexit {code}\n'
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def put_sysfs(root):
    """GPUs 0 and 1 behind one switch with NIC mlx5_2; 2 and 3 each at a root port."""
    switch = "pci0000:1a/0000:1a:01.0/0000:1b:00.0"
    put_device(root, f"{switch}/0000:1c:00.0/0000:1d:00.0", 0)
    put_device(root, f"{switch}/0000:1c:01.0/0000:1e:00.0", 0)
    put_device(root, f"{switch}/0000:1c:02.0/0000:1f:00.0", 0, nic="mlx5_2")
    put_device(root, "pci0000:99/0000:99:01.0/0000:9a:00.0", 1)
    put_device(root, "pci0000:99/0000:99:02.0/0000:9b:00.0", -1)
    put_device(root, "pci0000:a0/0000:a0:01.0/0000:a1:00.0", 1, nic="mlx5_5")


def put_device(root, way, numa, nic=""):
    folder = root / "devices" / way
    folder.mkdir(parents=True)
    (folder / "numa_node").write_text(f"{numa}\n")
    by_address = root / "bus/pci/devices"
    by_address.mkdir(parents=True, exist_ok=True)
    (by_address / folder.name).symlink_to(folder)
    if nic:
        card = root / "class/infiniband" / nic
        card.mkdir(parents=True)
        (card / "device").symlink_to(folder)
