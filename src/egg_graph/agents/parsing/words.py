"""Texts of bounded length."""


def trim_words(text: str, limit: int) -> str:
    """At most `limit` words: up to the last full sentence that fits, if that keeps half of them, else cut with "…"."""
    words = text.split()
    if len(words) <= limit:
        return " ".join(words)
    kept = words[:limit]
    for end in range(limit, limit // 2, -1):
        if kept[end - 1].endswith((".", ";", "!")):
            return " ".join(kept[:end]).rstrip(";")
    return " ".join(kept) + "…"
