-- What each shard adds to those before it, in the order of their names: traces of one folder at several
-- times, for one, give a growth curve.
--
--   duckdb -c "SET VARIABLE traces = 'trace-*.parquet'" -f growth.sql
WITH chunks AS (
    SELECT filename, fingerprint, length FROM read_parquet(getvariable('traces'), filename = true)
    WHERE flags & 1 = 0
), firsts AS (
    SELECT min(filename) AS filename, fingerprint, length FROM chunks GROUP BY fingerprint, length
), read AS (
    SELECT filename, sum(length) AS read_bytes FROM chunks GROUP BY filename
), new AS (
    SELECT filename, sum(length) AS new_bytes FROM firsts GROUP BY filename
)
SELECT filename, read_bytes::BIGINT AS read_bytes,
       coalesce(new_bytes, 0)::BIGINT AS new_bytes,
       (sum(coalesce(new_bytes, 0)) OVER (ORDER BY filename))::BIGINT AS unique_bytes_so_far
FROM read LEFT JOIN new USING (filename)
ORDER BY filename;
