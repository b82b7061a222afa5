"""Filters and tags for the templates."""
