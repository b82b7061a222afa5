"""What the preflight asks of a cluster beside the plan itself, one question a module.

`looking` is what each check is given and gives back; the list of them is `preflight.CHECKS`. A check touches
nothing and reads through the gateway only what the picture does not hold.
"""
