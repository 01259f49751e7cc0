"""Where step-time profiles come from. `sim` never imports this package."""
