"""A part of PromQL: selectors, aggregations over labels and over time, arithmetic and comparisons."""
