"""Who may write a partition: claims, trials, the times and signals of owners. Knows neither aggregate nor process."""
