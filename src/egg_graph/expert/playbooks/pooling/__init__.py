"""Max and average pooling in one to three dimensions."""
