"""What an agent is: immutable data with the words of the design. Knows nothing else of ours."""
