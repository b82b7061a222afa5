"""Being told when something is wrong: rules over the ledger, one row per alert, raised and cleared.

Nothing here asks a cluster or changes an execution.
"""
