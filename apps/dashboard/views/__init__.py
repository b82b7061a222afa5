"""The pages, one module each. They read through queries, change through services, and decide nothing."""
