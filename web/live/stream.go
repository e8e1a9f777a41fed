package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// writeTime is how long a reader may take to accept all that is sent at once. One that is slower is cut off, and comes
// again.
const writeTime = 5 * time.Second

// A Stream is one answer that goes on. It is used by one goroutine.
type Stream struct {
	w        http.ResponseWriter
	rc       *http.ResponseController
	patience time.Duration
}

// Open begins a stream on w: the status, the headers, and the first bytes, which tell the reader that it is there. The
// headers keep proxies from holding it back: X-Accel-Buffering is nginx's own, no-transform keeps others from compressing.
func Open(w http.ResponseWriter) (*Stream, error) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	s := &Stream{w: w, rc: http.NewResponseController(w), patience: writeTime}
	return s, s.Beat()
}

// Beat tells the reader that the stream is alive.
func (s *Stream) Beat() error { return s.write(": \n\n") }

// An Event is what a reader is told. ID, which a reader that comes again brings, names the state after it. ID and Name
// must be one line each.
type Event struct {
	ID, Name string
	Data     any
}

// Send sends events. The reader has one time for all of them: with a time for each, one that takes a little of each would
// hold the stream, and put off whatever its holder looks at between two sendings, for as many times as there are.
func (s *Stream) Send(events ...Event) error {
	var text strings.Builder
	for _, e := range events {
		if strings.ContainsAny(e.ID+e.Name, "\r\n\x00") {
			return fmt.Errorf("live: an id and an event's name are one line: %q, %q", e.ID, e.Name)
		}
		body, err := json.Marshal(e.Data) // one line
		if err != nil {
			return err
		}
		text.WriteString("id: " + e.ID + "\nevent: " + e.Name + "\ndata: " + string(body) + "\n\n")
	}
	return s.write(text.String())
}

func (s *Stream) write(text string) error {
	if text == "" {
		return nil
	}
	if err := s.rc.SetWriteDeadline(time.Now().Add(s.patience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.rc.Flush()
}
