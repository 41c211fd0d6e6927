"""Notes: their types and forms, and the notes that the record itself has to tell when runs end. No model is asked."""
