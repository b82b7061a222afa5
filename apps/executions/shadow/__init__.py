"""Shadow mode: plans are made and predicted for a cluster, compared with what happens, and none is started.

`standing` says whether a cluster is in shadow, `switching` changes that, `predicting` makes plans by the
timer, `comparing` looks at the cluster 5, 15 and 60 min later, `telling` sums up. Nothing here writes to a
cluster.
"""
