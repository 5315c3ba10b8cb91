package model

import (
	"slices"
	"time"

	"nereid/engine/backend"
	"nereid/engine/inferencepb"
	"nereid/engine/sched"
)

// newBatcher returns the scheduler that a configuration asks for. coresBusy is nil unless the instances compute on the
// same cores. strategy is nil if the model has none.
func newBatcher(cfg *inferencepb.ModelConfig, coresBusy func() bool, strategy sched.Strategy) sched.Batcher {
	db := cfg.GetDynamicBatching()
	if db == nil { // the default scheduler
		return sched.NewDynamic(sched.Policy{MaxBatchSize: 1, CoresBusy: coresBusy})
	}
	p := dynamicPolicy(cfg, db)
	p.CoresBusy, p.Strategy = coresBusy, strategy
	return sched.NewDynamic(p)
}

// sharesCores reports whether a model's instances compete for cores: all are on the CPU, and the backend computes in
// this process. Of others that is not known.
func sharesCores(loaded backend.Model, places []backend.Placement) bool {
	return loaded.Traits().RunsInline && !slices.ContainsFunc(places, func(p backend.Placement) bool {
		return p.Kind != inferencepb.ModelInstanceGroup_KIND_CPU || p.Affinity.Cores != nil
	})
}

// dynamicPolicy reads dynamic_batching. Its queue policies also hold for a model whose max_batch_size is 0.
func dynamicPolicy(cfg *inferencepb.ModelConfig, db *inferencepb.ModelDynamicBatching) sched.Policy {
	p := sched.Policy{
		MaxBatchSize:     max(int(cfg.GetMaxBatchSize()), 1),
		MaxQueueDelay:    microseconds(db.GetMaxQueueDelayMicroseconds()),
		PreserveOrdering: db.GetPreserveOrdering(),
		Levels:           int(db.GetPriorityLevels()),
		DefaultLevel:     int(db.GetDefaultPriorityLevel()),
		Queue:            queuePolicy(db.GetDefaultQueuePolicy()),
	}
	for _, n := range db.GetPreferredBatchSize() {
		p.Preferred = append(p.Preferred, int(n))
	}
	for n, q := range db.GetPriorityQueuePolicy() {
		if p.LevelQueue == nil {
			p.LevelQueue = map[int]sched.QueuePolicy{}
		}
		p.LevelQueue[int(n)] = queuePolicy(q)
	}
	p.Equal, p.SameInputs = equalInputs(cfg)
	return p
}

// equalInputs returns the inputs that must agree within a batch, and whether the requests of a batch must have the
// same.
func equalInputs(cfg *inferencepb.ModelConfig) (equal []sched.EqualInput, same bool) {
	for _, in := range cfg.GetInput() {
		same = same || in.GetOptional()
		if !in.GetAllowRaggedBatch() && (in.GetIsShapeTensor() || variable(in.GetDims())) {
			equal = append(equal, sched.EqualInput{Name: in.GetName(), Values: in.GetIsShapeTensor()})
		}
	}
	return equal, same
}

func variable(dims []int64) bool {
	for _, d := range dims {
		if d < 0 {
			return true
		}
	}
	return false
}

func queuePolicy(q *inferencepb.ModelQueuePolicy) sched.QueuePolicy {
	return sched.QueuePolicy{
		Delay:         q.GetTimeoutAction() == inferencepb.ModelQueuePolicy_DELAY,
		Timeout:       microseconds(q.GetDefaultTimeoutMicroseconds()),
		AllowOverride: q.GetAllowTimeoutOverride(),
		MaxSize:       int(q.GetMaxQueueSize()),
	}
}

// microseconds converts a duration of a configuration; what is too long to count is the longest.
func microseconds(n uint64) time.Duration {
	const longest = uint64(1<<63-1) / uint64(time.Microsecond)
	return time.Duration(min(n, longest)) * time.Microsecond
}
