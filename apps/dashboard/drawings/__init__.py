"""SVG drawn on the server: geometry and class names only, never a colour or a style attribute.

Text is built with f-strings because a page can hold thousands of cells; whatever comes from a
cluster goes through `reading.plain.shown`, which escapes it. Nothing here reads a row or a request.
"""
