"""Loads in the files of load generators: requests and sessions shaped as each tool reads them, without any file.

Start with blocks.py (content becomes ids of blocks), then conversation.py (requests become sessions).
"""
