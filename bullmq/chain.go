package bullmq

import "slices"

// Chain makes one flow of steps that run one after the other: each step is a
// child of the next one, and the last one, the root, is what Add answers with. A
// step reads what the one before it has returned with ChildValue; in Node that
// is the one value of job.getChildrenValues().
//
// A step that fails for good stops the chain where it is: the next step waits
// until the failed one is retried and completes. With one of these options on
// the failed step, the next one
//
//   - FailParentOnFailure: fails too, without being run;
//   - ContinueParentOnFailure, IgnoreDependencyOnFailure: runs, and finds the reason;
//   - RemoveDependencyOnFailure: runs, and finds nothing.
//
// It also runs, and finds nothing, when the step before it is removed, be it by
// its own RemoveOnFail. To give up a chain, remove its root: all steps go with it,
// unless a worker holds one of them.
//
// A step may have children of its own, as those made by FanOut. It waits for
// them and the step before it alike; they don't wait for that.
func Chain(steps ...Flow) Flow {
	var chain Flow
	for i, step := range steps {
		if i > 0 {
			step = FanOut(step, chain)
		}
		chain = step
	}
	return chain
}

// FanOut makes one flow of branches that run at the same time and a job, join,
// that runs when all of them have ended; it reads what they have returned with
// Children. A branch may be a Chain. What happens to join when a branch fails is
// that branch's option, as in a Chain; with ContinueParentOnFailure, join runs
// at once, while the other branches may still run.
func FanOut(join Flow, branches ...Flow) Flow {
	join.Children = slices.Concat(join.Children, branches)
	return join
}
