"""A simulated run in the files of load generators and servers: pure shaping, a text a run; `formats.py` lists them."""
