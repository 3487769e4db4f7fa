"""Bronze, silver and gold: functions from DataFrames to DataFrames."""
