"""What an agent can do: schemas and built-in tools."""
