"""`edgeseg bench`: the group, its commands, and the options they share."""
