"""Proving that a cluster's scheduler asks our extender, and waits for it where it does not answer.

No API shows either: both stand in a file on the control plane's disk. So pods of our own ask.
"""
