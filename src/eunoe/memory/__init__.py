"""How memory changes: edits, limits and revisions. Every path that writes memory asks here."""
