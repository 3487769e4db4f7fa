"""`kohort pipeline`, `why`, `timeline`, `lag`, `storms`, `report`."""
