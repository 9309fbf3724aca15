package scripts

import "context"

var (
	extendLock            = load("extendLock")
	extendLocks           = load("extendLocks")
	moveStalledJobsToWait = load("moveStalledJobsToWait")
)

// Lock names a lock: the job, and the token that owns it.
type Lock struct{ JobID, Token string }

// ExtendLock renews one lock; false when it is gone or another's.
func (q *Store) ExtendLock(ctx context.Context, lock Lock, lockMs int64) (bool, error) {
	n, err := q.number(ctx, extendLock, lock.JobID, q.base, lock.JobID, lock.Token, decimal(lockMs))
	return n == 1, err
}

// ExtendLocks renews many locks in one call and answers the ids of the jobs
// whose lock is gone or another's.
func (q *Store) ExtendLocks(ctx context.Context, locks []Lock, lockMs int64) ([]string, error) {
	args := make([]string, 0, 2+2*len(locks))
	args = append(args, q.base, decimal(lockMs))
	for _, lock := range locks {
		args = append(args, lock.JobID, lock.Token)
	}
	return q.strings(ctx, extendLocks, args...)
}

// MoveStalled makes one check for jobs whose worker is gone, at most one
// within intervalMs over all workers, and answers the ids sent back to wait.
func (q *Store) MoveStalled(ctx context.Context, nowMs, maxStalled, intervalMs int64) ([]string, error) {
	return q.strings(ctx, moveStalledJobsToWait, q.base, decimal(nowMs), decimal(maxStalled), decimal(intervalMs))
}
