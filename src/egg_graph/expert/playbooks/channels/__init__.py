"""Work on [samples, channels, pixels] by channel: statistics of a channel, and what normalizes with them."""
