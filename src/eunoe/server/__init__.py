"""HTTP: routes, SSE, auth. The Letta v1 format is translated in ``wire``."""
