"""A run as long as C97 has it, made by a few statements: what its steps would have written in an hour is there in a second."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.db import connection, transaction

from runs.engine import canonical

if TYPE_CHECKING:
    from runs.models import Run  # `make screenshots` reads this page without Django's settings

EVENTS: Final = 20_000
CHECKPOINTS: Final = 2_000
SIBLINGS: Final = 500
STATE: Final = 50_000  # bytes
PAYLOAD: Final = 5_000_000
EVERY: Final = 50  # checkpoints from one snapshot to the next
FIRST_ERROR: Final = 7_000
LARGE: Final = 19_990  # the event with the large payload

STATEMENTS: Final = (
    # Steps: a window holds some that failed, and of each tenth two attempts with a wait between.
    """
    INSERT INTO runs_step (run_id, branch, address, lane, node, visit, status, epoch, checkpoint, failures, crashes, entries,
      created_at, started_at, entered_at, ended_at, error)
    SELECT %(run)s, 1, md5('step' || n), '0', 'node_' || n %% 60, n, CASE WHEN n = 7000 THEN 'failed' ELSE 'completed' END,
      1, least(n / 10 + 10, %(checkpoints)s), CASE WHEN n %% 10 = 0 THEN 1 ELSE 0 END, 0, 1, begun, begun, begun,
      begun + interval '0.8 second', CASE WHEN n = 7000 THEN '{"code": "node_error", "message": "no paper"}'::jsonb END
    FROM (SELECT n, run.created_at + n * interval '1 second' AS begun FROM generate_series(1, %(events)s) n, runs_run run
          WHERE run.id = %(run)s) made
    """,
    """
    INSERT INTO runs_wait (run_id, branch, address, node, kind, opened_at, closed_at)
    SELECT %(run)s, 1, address, node, 'retry', started_at + interval '0.2 second', started_at + interval '0.5 second'
    FROM runs_step WHERE run_id = %(run)s AND failures = 1
    """,
    """
    INSERT INTO runs_journalentry (run_id, branch, address, name, occurrence, node, ordinal, after, attempt, args_digest, result,
      effect, call_key, started_at, ended_at)
    SELECT %(run)s, 1, address, 'get', '0', node, 0, checkpoint, 1, '', '"r"',
      CASE WHEN visit %% 50 = 0 THEN 'irreversible' ELSE 'none' END, md5('key' || address), started_at, ended_at
    FROM runs_step WHERE run_id = %(run)s AND node LIKE 'node%%'
    """,
    """
    INSERT INTO runs_event (run_id, seq, kind, branch, epoch, node, address, actor, at, payload, payload_hash, hash)
    SELECT %(run)s, n, CASE WHEN n IN (7000, 15000) THEN 'step_failed' ELSE 'step_completed' END, 1, 1,
      'node_' || n %% 60, '', '',
      run.created_at + n * interval '1 second',
      CASE WHEN n = %(large)s THEN '{"output":"' || repeat('x', %(payload)s) || '"}' ELSE '{"visit":' || n || '}' END, '', ''
    FROM generate_series(%(seq)s + 1, %(events)s) n, runs_run run WHERE run.id = %(run)s
    """,
    """
    INSERT INTO runs_branch (run_id, no, parent_branch, parent_checkpoint, epoch, calls, generation, reason)
    SELECT %(run)s, n + 1, 1, n, 1, 'reuse', 0, 'sibling ' || n FROM generate_series(1, %(siblings)s) n
    """,
    """
    UPDATE runs_run SET seq = %(events)s, head = %(checkpoints)s, checkpoint_no = %(checkpoints)s WHERE id = %(run)s
    """,
)


def lengthen(run: Run) -> None:
    """Give a run that has begun everything that C97 asks for."""
    facts: dict[str, Any] = {
        "run": run.pk,
        "seq": run.seq,
        "events": EVENTS,
        "checkpoints": CHECKPOINTS,
        "siblings": SIBLINGS,
        "payload": PAYLOAD,
        "large": LARGE,
    }
    with transaction.atomic(), connection.cursor() as cursor:
        _checkpoints(run)
        for text in STATEMENTS:
            cursor.execute(text, facts)
    run.refresh_from_db()


def _checkpoints(run: Run) -> None:
    from runs import store
    from runs.models import Checkpoint

    document = store.read_position(run.pk, run.head)
    rows = []
    for no in range(run.head + 1, CHECKPOINTS + 1):
        is_snapshot = no % EVERY == 0 or no == run.head + 1
        text, snapshot_no = _stored(document, no, whole=is_snapshot), no
        if not is_snapshot:
            snapshot_no = max(no - no % EVERY, run.head + 1)
        rows.append(
            Checkpoint(
                run=run,
                no=no,
                branch=1,
                parent=no - 1,
                kind="step",
                node=f"node_{no % 60}",
                epoch=1,
                snapshot_no=snapshot_no,
                **{"snapshot" if is_snapshot else "patch": text},
            )
        )
    Checkpoint.objects.bulk_create(rows, batch_size=500)


def _stored(document: dict[str, Any], no: int, *, whole: bool) -> str:
    if whole:
        base = {"log": [f"line {n} of a long text" for n in range(STATE // 26)], "x": no}
        root = {**document["root"], "base": {**document["root"]["base"], **base}}
        return canonical.dumps({**document, "root": root})
    return canonical.dumps([{"op": "replace", "path": "/root/base/x", "value": no}])
