"""The program of the DaemonSet: tells what only the node itself knows, in two annotations of its own Node.

`topology.gpu.internal/matrix`: the GPUs, how they are linked and cut, from the driver.
`topology.gpu.internal/holders`: which pod holds which device, from the kubelet.
A program of its own, not a Django app: of the console it imports nothing but the reader of
`nvidia-smi topo -m`, and the console imports nothing of it.
"""
