"""What is generated, one file a part of the language. Each function writes one kernel of a category."""
