"""MIG: what each GPU model can be cut into, what fits where, and how to cut a cluster to its demand.

`tables_*` are facts, `catalogue` finds a model by its product name, `layouts` says what is legal,
`placing` finds start slices, `blocks` and `choosing` decide over counts, `facts` and `planning` over a
snapshot, `measuring` says what still fits; `named` and `preferring` know
mig-parted's configurations by name. Not in here: how a reconfiguration is carried out.
"""
