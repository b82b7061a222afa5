"""The safety rules as assertions over what was recorded, by the groups in which they are numbered."""
