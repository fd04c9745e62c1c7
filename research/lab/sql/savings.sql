-- What traces say of savings: the figures of `cutpoint-lab trace --read`, by DuckDB.
--
--   duckdb -c "SET VARIABLE traces = 'trace-*.parquet'" -f savings.sql
--
-- Chunks of zeros (flag 1) are not stored. Lengths are 64 bits wide, and sums wider.
WITH chunks AS (
    SELECT fingerprint, length, flags FROM read_parquet(getvariable('traces'))
), uniques AS (
    SELECT fingerprint, length FROM chunks WHERE flags & 1 = 0 GROUP BY fingerprint, length
), read AS (
    SELECT count(*) AS chunk_count, coalesce(sum(length), 0) AS read_bytes,
           coalesce(sum(length) FILTER (flags & 1 = 1), 0) AS zero_bytes
    FROM chunks
), stored AS (
    SELECT count(*) AS unique_chunk_count, coalesce(sum(length), 0) AS unique_bytes FROM uniques
)
SELECT read_bytes::BIGINT AS read_bytes, zero_bytes::BIGINT AS zero_bytes, chunk_count,
       unique_chunk_count, unique_bytes::BIGINT AS unique_bytes,
       1 - unique_bytes / nullif(read_bytes, 0)::DOUBLE AS space_savings,
       read_bytes / nullif(unique_bytes, 0)::DOUBLE AS dedup_ratio
FROM read, stored;
