"""The ladder where there is no GPU."""
