"""A scheduler that behaves like the stock kube-scheduler: filters, scores, nominations, preemption."""
