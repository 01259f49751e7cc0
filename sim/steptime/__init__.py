"""What one engine step costs: a profile (fitted, measured or roofline) turned into seconds for a batch.

Start with `batch.py` (what is priced), then `model.py` (how), `profile.py` (from which numbers).
"""
