"""The tests, and the values and fakes they share."""
