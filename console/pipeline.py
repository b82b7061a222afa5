"""The beat schedule; reads as the list of stages. Each entry is only a timer: every stage would be
right on its timer alone, messages merely make it faster."""

SCHEDULE: dict[str, dict] = {}
