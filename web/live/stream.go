package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// writeTime is how long a reader may take to accept what is sent. One that is slower is cut off, and comes again.
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

// Send sends one event. id, which a reader that comes again brings, names the state after it; an id must be one line.
func (s *Stream) Send(id, event string, data any) error {
	if strings.ContainsAny(id+event, "\r\n\x00") {
		return fmt.Errorf("live: an id and an event's name are one line: %q, %q", id, event)
	}
	body, err := json.Marshal(data) // one line
	if err != nil {
		return err
	}
	return s.write("id: " + id + "\nevent: " + event + "\ndata: " + string(body) + "\n\n")
}

func (s *Stream) write(text string) error {
	if err := s.rc.SetWriteDeadline(time.Now().Add(s.patience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.rc.Flush()
}
