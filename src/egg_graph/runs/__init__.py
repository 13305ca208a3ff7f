"""One run from call to folder: optimize, resume, and the files that a run leaves."""
