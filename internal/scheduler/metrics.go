package scheduler

import "github.com/prometheus/client_golang/prometheus"

// Metrics is what one replica counts. No label holds an id or a name: their number is bounded by the code.
type Metrics struct {
	cycles    *prometheus.CounterVec
	claims    prometheus.Counter
	takeovers prometheus.Counter
	outcomes  *prometheus.CounterVec
	coalesced prometheus.Counter
	lateness  prometheus.Histogram
	backlog   prometheus.Gauge
	oldest    prometheus.Gauge
	blocked   prometheus.Gauge
	skew      prometheus.Gauge
}

// NewMetrics registers the scheduler's metrics with r.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		cycles:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ql3_scheduler_cycles_total", Help: "Cycles ended, by result."}, []string{"result"}),
		claims:    prometheus.NewCounter(prometheus.CounterOpts{Name: "ql3_scheduler_claims_total", Help: "Schedules claimed."}),
		takeovers: prometheus.NewCounter(prometheus.CounterOpts{Name: "ql3_scheduler_takeovers_total", Help: "Claims that replaced an expired one."}),
		outcomes:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ql3_scheduler_outcomes_total", Help: "Claims settled, by outcome."}, []string{"outcome"}),
		coalesced: prometheus.NewCounter(prometheus.CounterOpts{Name: "ql3_scheduler_coalesced_total", Help: "Instants passed over between two cursors."}),
		lateness: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "ql3_scheduler_lateness_seconds",
			Help:    "Admission minus due instant, both by the database clock.",
			Buckets: []float64{.002, .005, .01, .02, .03, .05, .1, .15, .25, .5, 1, 2.5, 5, 15, 60, 300, 3600}}),
		backlog: prometheus.NewGauge(prometheus.GaugeOpts{Name: "ql3_scheduler_due_backlog", Help: "Schedules due now; counting stops at 10000."}),
		oldest:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "ql3_scheduler_oldest_lateness_seconds", Help: "Age of the earliest due cursor."}),
		blocked: prometheus.NewGauge(prometheus.GaugeOpts{Name: "ql3_scheduler_blocked_schedules", Help: "Schedules that cannot be decided."}),
		skew:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "ql3_scheduler_clock_skew_seconds", Help: "This replica's clock minus the database's."}),
	}
	r.MustRegister(m.cycles, m.claims, m.takeovers, m.outcomes, m.coalesced, m.lateness, m.backlog, m.oldest, m.blocked, m.skew)
	for _, o := range []Outcome{Admitted, Already, Skipped, Initialized, Raced, Failed} {
		m.outcomes.WithLabelValues(string(o)) // a counter that is there before it counts can be alerted on
	}
	for _, r := range []string{"ok", "error"} {
		m.cycles.WithLabelValues(r)
	}
	return m
}

func (m *Metrics) cycle(err error) {
	if err != nil {
		m.cycles.WithLabelValues("error").Inc()
		return
	}
	m.cycles.WithLabelValues("ok").Inc()
}

func (m *Metrics) claimed(c Claim) {
	m.claims.Inc()
	if c.TakenFrom != "" {
		m.takeovers.Inc()
	}
}

func (m *Metrics) settled(r Result) {
	m.outcomes.WithLabelValues(string(r.Outcome)).Inc()
	m.coalesced.Add(float64(r.Passed))
	if r.Outcome == Admitted {
		m.lateness.Observe(float64(r.LatenessMS) / 1000)
	}
}

func (m *Metrics) observe(p pulse) {
	m.backlog.Set(float64(p.Backlog))
	m.blocked.Set(float64(p.Blocked))
	m.skew.Set(float64(p.SkewMS) / 1000)
	m.oldest.Set(0)
	if p.OldestDueMS != nil {
		m.oldest.Set(float64(p.NowMS-*p.OldestDueMS) / 1000)
	}
}
