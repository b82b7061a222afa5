"""One module for each kind of step. Each has

observe(context, step)        reads the cluster, changes nothing
decide(step, facts, late)     what to do about it: pure
decide_undo(step, facts)      the same for taking its traces away: pure
apply(context, step, decision)  sends the one effect that was decided

A step is the unit of crash safety: whatever was sent or not before a crash, the next look tells.
"""
