"""Frees what the console holds in a cluster when nobody else is there to do it: a small program of its own.

It needs neither the console's database nor its broker, and borrows none of its code: it goes by what stands
in the cluster alone, and touches nothing that does not carry the console's own gate, label or annotation.
"""
