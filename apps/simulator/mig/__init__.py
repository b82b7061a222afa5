"""MIG on simulated nodes: layouts, what device plugin and feature discovery make of them, mig-parted.

Pure; no calls. Not here: who changes a layout and when (controllers/gpu_operator).
"""
