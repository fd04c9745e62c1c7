-- The chunks that save most: how often each comes, and how many bytes its copies would take.
--
--   duckdb -c "SET VARIABLE traces = 'trace-*.parquet'" -f heavy.sql
SELECT lower(hex(fingerprint)) AS fingerprint, length, count(*) AS copy_count,
       count(DISTINCT path_id) AS file_count,
       ((count(*) - 1) * length)::BIGINT AS saved_bytes
FROM read_parquet(getvariable('traces'))
WHERE flags & 1 = 0
GROUP BY fingerprint, length
HAVING count(*) > 1
ORDER BY saved_bytes DESC, fingerprint
LIMIT 100;
