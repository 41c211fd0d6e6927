"""What a run is started from: captures, and the code that was approved."""
