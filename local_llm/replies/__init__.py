"""From the words of a reply to code or JSON that was checked."""
