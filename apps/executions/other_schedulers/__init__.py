"""KAI, Volcano, Koordinator and Kueue: what their settings would do to a pod that is moved.

`settings` reads them, `starting` tells how long a pod takes to start, `refusing` says why a move is refused.
Nothing here changes a cluster, and no adapter of ours lands a pod under one of these schedulers yet.
"""
