-- Where the chunks of a file do not fit together: a part of the trace is missing, or its seams have to be repaired by
-- `cutpoint-lab trace --join`. Without a row, the traces together have the chunks of one pass.
--
--   duckdb -c "SET VARIABLE traces = 'trace-*.parquet'" -f seams.sql
WITH chunks AS (
    SELECT path_id, "offset", length, flags,
           lag("offset" + length) OVER file AS previous_end,
           lag(flags) OVER file AS previous_flags,
           lead(path_id) OVER file IS NULL AS is_end
    FROM read_parquet(getvariable('traces'))
    WINDOW file AS (PARTITION BY path_id ORDER BY "offset", length)
)
SELECT path_id, "offset", previous_end FROM chunks
WHERE CASE
    -- A chunk that begins a file or ends a hole: the one before it has to end at the hole.
    WHEN flags & 4 > 0 THEN coalesce(previous_flags & 2, 2) = 0
    ELSE coalesce(previous_flags & 2 > 0 OR previous_end <> "offset", true)
END
UNION ALL
SELECT path_id, "offset" + length, NULL FROM chunks WHERE is_end AND flags & 2 = 0
ORDER BY path_id, "offset";
