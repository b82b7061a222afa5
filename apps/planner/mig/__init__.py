"""MIG: what each GPU model can be cut into, what fits where, and how to cut a cluster to its demand.

`tables_*` are facts, `catalogue` finds a model by its product name, `layouts` says what is legal,
`placing` finds start slices, `blocks` and `choosing` decide for a whole cluster. Not in here: how
a reconfiguration is carried out.
"""
