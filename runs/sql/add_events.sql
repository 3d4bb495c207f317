-- Events of a locked run, numbered and linked already.
INSERT INTO runs_event
  (run_id, seq, kind, branch, epoch, checkpoint, node, address, actor, at, payload, salt, payload_hash, hash)
SELECT %(run)s, seq, kind, %(branch)s, %(epoch)s, %(checkpoint)s, node, address, %(actor)s, %(at)s, payload, salt,
  payload_hash, hash
FROM unnest(%(seqs)s::bigint[], %(kinds)s::text[], %(nodes)s::text[], %(addresses)s::text[], %(payloads)s::text[],
  %(salts)s::bytea[], %(payload_hashes)s::bytea[], %(hashes)s::bytea[])
  AS event (seq, kind, node, address, payload, salt, payload_hash, hash)
