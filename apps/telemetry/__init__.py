"""What the devices of a cluster do: readings, sliding windows, low use. Reads Prometheus through
`apps.prometheus`; draws nothing (`apps.dashboard`)."""
