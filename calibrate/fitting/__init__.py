"""From the measurement table to profiles."""
