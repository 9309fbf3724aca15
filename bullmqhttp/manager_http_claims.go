package bullmqhttp

import (
	"encoding/json"
	"slices"
	"time"
)

func (m *Manager) serveClaim(c *call) error {
	body := struct {
		Max  int     `json:"max"`
		Wait seconds `json:"wait"`
	}{Max: 1}
	if err := m.decode(c, CodeInvalidRequest, &body); err != nil {
		return err
	}
	wait := min(time.Duration(body.Wait), m.o.MaxWait)
	hold(c.w, c.r, wait+endTimeout)
	claims, err := m.Claim(c.r.Context(), c.worker, body.Max, wait)
	if err == nil && c.r.Context().Err() != nil {
		m.giveBack(c, claims)
		return nil
	}
	return c.answer(struct {
		Claims []*Claim `json:"claims"`
	}{claims}, err)
}

// giveBack releases the claims of a client that is gone. The last one is released first, because each goes
// to the front of the queue.
func (m *Manager) giveBack(c *call, claims []*Claim) {
	for _, claim := range slices.Backward(claims) {
		job := m.main.JobRef(claim.JobID).WithToken(claim.Token)
		ctx, cancel := detached(c.r)
		if err := job.MoveToWait(ctx); err != nil {
			m.o.Logger.WarnContext(ctx, "a claim of a client that is gone could not be released", "job", claim.JobID, "error", err)
		}
		cancel()
	}
}

// claimOf decodes the body of a call about a claim, which has its token besides other fields.
func (m *Manager) claimOf(c *call, token *string, body any) (*Claim, error) {
	if err := m.decode(c, CodeInvalidRequest, body); err != nil {
		return nil, err
	}
	return &Claim{JobID: c.id, Worker: c.worker, Token: *token}, nil
}

func (m *Manager) serveExtend(c *call) error {
	var body struct {
		Token    string          `json:"token"`
		By       seconds         `json:"by"`
		Progress json.RawMessage `json:"progress"`
	}
	claim, err := m.claimOf(c, &body.Token, &body)
	if err != nil {
		return err
	}
	var progress any
	if body.Progress != nil {
		progress = body.Progress
	}
	ctx, cancel := m.inTime(c)
	defer cancel()
	claim, err = m.Extend(ctx, claim, time.Duration(body.By), progress)
	return c.answer(claim, err)
}

func (m *Manager) serveSucceed(c *call) error {
	var body struct {
		Token  string          `json:"token"`
		Result json.RawMessage `json:"result"`
	}
	claim, err := m.claimOf(c, &body.Token, &body)
	if err != nil {
		return err
	}
	ctx, cancel := detached(c.r)
	defer cancel()
	info, err := m.Succeed(ctx, claim, body.Result)
	return c.answer(info, err)
}

func (m *Manager) serveFail(c *call) error {
	var body struct {
		Token      string  `json:"token"`
		Reason     string  `json:"reason"`
		Permanent  bool    `json:"permanent"`
		RetryAfter seconds `json:"retryAfter"`
	}
	claim, err := m.claimOf(c, &body.Token, &body)
	if err != nil {
		return err
	}
	ctx, cancel := detached(c.r)
	defer cancel()
	info, err := m.Fail(ctx, claim, Failure{Reason: body.Reason, Permanent: body.Permanent, RetryAfter: time.Duration(body.RetryAfter)})
	return c.answer(info, err)
}

func (m *Manager) serveRelease(c *call) error {
	var body struct {
		Token string  `json:"token"`
		Wait  seconds `json:"wait"`
	}
	claim, err := m.claimOf(c, &body.Token, &body)
	if err != nil {
		return err
	}
	ctx, cancel := detached(c.r)
	defer cancel()
	return c.nothing(m.Release(ctx, claim, time.Duration(body.Wait)))
}
