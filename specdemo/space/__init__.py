"""The Spacefile: all that a deploy to Hugging Face Spaces and the running app need to know, in one strict file."""
