"""From records to answers: metrics of a run, intervals over seeds, the knee, its cause, and the SLO capacity."""
