"""What the doors to the outside share: lines that are bounded in time and lead nowhere they must not."""
