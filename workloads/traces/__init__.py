"""Recorded traces: one file a format, each read row by row into the same requests, and what is made of them.

Start with request.py and format.py; formats.py lists the formats, open.py opens a file or folder. open_loop.py sends
requests at their times, sessions.py and replay.py let users live through recorded sessions. Imported by module: a run
without a trace loads none of this.
"""
