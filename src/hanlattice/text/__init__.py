"""The ground floor: text, spans, tags, words and lattices. No torch in here."""
