"""What the pages show, worked out from a snapshot and a report. No requests, no HTML, no rows written."""
