"""All that runs in a candidate's process. Nothing here may import the judge's side."""
