"""Tables out of the record, ad-hoc runs and notebooks."""
