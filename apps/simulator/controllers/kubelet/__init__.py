"""The simulated kubelets: devices, life of a pod, and what a node reports about itself."""
