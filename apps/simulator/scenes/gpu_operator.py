"""The GPU operator's part of a scene: its DaemonSets, its MIG configurations, nodes cut by them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from apps.simulator import mig
from apps.simulator.controllers.gpu_operator.labels import (
    MIG_CONFIG,
    MIG_MANAGER,
    MIG_STATE,
    missing_labels,
)
from apps.simulator.controllers.gpu_operator.reconfigure import CONFIG_KEY, CONFIG_MAP
from apps.simulator.controllers.kubelet.gpu_stack import DEPLOY, DISCOVERY, OPERATOR_NAMESPACE, PLUGIN
from apps.simulator.hardware import MODELS, build_hardware
from apps.simulator.mig.layout import LAYOUT_ANNOTATION, layout_text
from apps.simulator.mig.offers import mig_model
from apps.simulator.mig.parted import cut_from_scratch, read_config
from apps.simulator.mig.setup import AGENT_ANNOTATION, SHARING_ANNOTATION, STRATEGY_ANNOTATION, Setup
from apps.simulator.scenes.builder import SceneBuilder
from apps.simulator.scenes.owners import Owner, make_template

Json = dict[str, Any]

# DaemonSet: the operand's name in its deploy label
_OPERANDS = {
    PLUGIN: "device-plugin",
    DISCOVERY: "gpu-feature-discovery",
    "nvidia-dcgm-exporter": "dcgm-exporter",
    "nvidia-operator-validator": "operator-validator",
    MIG_MANAGER: "mig-manager",
}
_TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def config_text(own: str = "") -> str:
    """The operator's default configurations and a scene's own."""
    return (Path(mig.__file__).parent / "default_config.yaml").read_text() + own


def add_mig_node(
    scene: SceneBuilder,
    name: str,
    model: str,
    config: str,
    text: str,
    *,
    place: dict[str, Any],
    strategy: str = "mixed",
    has_agent: bool = True,
    sharing: str = "",
) -> None:
    """config: the MIG configuration that was applied there, one of text; "" for a model without MIG."""
    labels = {"nvidia.com/gpu.present": "true"}
    notes = {STRATEGY_ANNOTATION: strategy}
    if mig_model(MODELS[model]):
        labels |= {"nvidia.com/mig.capable": "true", MIG_CONFIG: config, MIG_STATE: "success"}
        labels[f"{DEPLOY}nvsm"] = "true"  # the MIG manager leaves this one behind, whatever runs there
        idle = Setup(build_hardware(name, MODELS[model], 8))
        notes[LAYOUT_ANNOTATION] = layout_text(cut_from_scratch(idle, read_config(text, config)))
    if not has_agent:
        notes[AGENT_ANNOTATION] = "absent"
    if sharing:
        notes[SHARING_ANNOTATION] = sharing
    labels |= missing_labels(labels, has_mig_manager=True)
    scene.add_node(name, model, 8, **place, more_labels=labels, notes=notes)


def add_operator(scene: SceneBuilder, text: str) -> None:
    """After the nodes: each operand gets a pod on each of its nodes."""
    scene.add_namespace(OPERATOR_NAMESPACE)
    scene.add_config_map(OPERATOR_NAMESPACE, CONFIG_MAP, {CONFIG_KEY: text})
    for app, operand in _OPERANDS.items():
        template = make_template(
            app,
            image=f"registry.example/{app}:1",
            cpu=1,
            memory_gib=1,
            priority="system-node-critical",
            selector={f"{DEPLOY}{operand}": "true"},
        )
        template["spec"]["tolerations"] = [_TOLERATION]
        if app == MIG_MANAGER:
            template["spec"]["containers"][0]["env"] = [
                {"name": "WITH_REBOOT", "value": "false"},
                {"name": "WITH_SHUTDOWN_HOST_GPU_CLIENTS", "value": "false"},
                {"name": "CONFIG_FILE", "value": f"/mig-parted-config/{CONFIG_KEY}"},
            ]
            mount = {"name": "mig-parted-config", "mountPath": "/mig-parted-config"}
            template["spec"]["containers"][0]["volumeMounts"] = [mount]
            template["spec"]["volumes"] = [{"name": mount["name"], "configMap": {"name": CONFIG_MAP}}]
        scene.put_daemon(scene.add_owner(Owner("DaemonSet", OPERATOR_NAMESPACE, app, template)))
