"""What an execution cost and brought, in GPU-hours, beside what its plan predicted.

`predicting` says what the plan foresaw, `losing` and `gaining` keep account of what is seen (all pure),
`measuring` looks every quarter of an hour for 24 h, `telling` sums up. All from the console's own picture of
the cluster and the ledger: nothing here asks a cluster for anything.
"""
