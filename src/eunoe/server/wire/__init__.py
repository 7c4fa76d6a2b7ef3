"""To and from the Letta v1 format. Deprecated names and odd shapes live here only."""
