"""What judge and candidate's process share: the forms of values, launches and faults that cross, and poison."""
