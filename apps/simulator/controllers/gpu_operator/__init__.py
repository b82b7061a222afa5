"""NVIDIA's GPU operator: the labels that steer its operands, and the manager of MIG layouts.

The operands themselves are pods of ordinary DaemonSets; what device plugin and feature discovery do
while they run is in kubelet/gpu_stack.
"""
