package live

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

func subscribe(t *testing.T, h *Hub, user uuid.UUID) *Subscription {
	t.Helper()
	s, err := h.Subscribe(user)
	if err != nil {
		t.Fatalf("Subscribe() = %v", err)
	}
	return s
}

func hinted(s *Subscription) bool {
	select {
	case <-s.Changed:
		return true
	default:
		return false
	}
}

func TestHintsReachEverybodyOnce(t *testing.T) {
	h := New()
	a, b := subscribe(t, h, uuid.New()), subscribe(t, h, uuid.New())
	h.Hint()
	h.Hint() // nobody took the first: they are one, and nobody is waited for
	if !hinted(a) || hinted(a) {
		t.Error("the first subscriber was not told exactly once")
	}
	b.Close()
	b.Close()
	h.Hint()
	if got := h.Open(); got != 1 {
		t.Errorf("Open() = %d after one of two closed twice, want 1", got)
	}
	if !hinted(b) || hinted(b) {
		t.Error("what was said before the end is not there, or what was said after it is")
	}
}

func TestSubscriptionsAreBounded(t *testing.T) {
	h, user := New(), uuid.New()
	var own []*Subscription
	for range PerUser {
		own = append(own, subscribe(t, h, user))
	}
	if _, err := h.Subscribe(user); !errors.Is(err, ErrTooMany) {
		t.Errorf("Subscribe() beyond the user's = %v, want ErrTooMany", err)
	}
	for range PerReplica - PerUser {
		subscribe(t, h, uuid.New())
	}
	if _, err := h.Subscribe(uuid.New()); !errors.Is(err, ErrTooMany) {
		t.Errorf("Subscribe() beyond the replica's = %v, want ErrTooMany", err)
	}
	own[0].Close()
	subscribe(t, h, user)
}

func TestRunEndsEverySubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New()
		s := subscribe(t, h, uuid.New())
		ctx, cancel := context.WithCancel(t.Context())
		changes, failure := make(chan error), errors.New("nobody knows")
		go h.Run(ctx, func(ctx context.Context) error {
			select {
			case err := <-changes:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		changes <- failure
		changes <- nil
		synctest.Wait()
		if !hinted(s) || hinted(s) {
			t.Error("one change and one failure are not one hint")
		}
		cancel()
		synctest.Wait()
		select {
		case <-s.Done:
		default:
			t.Error("the subscription goes on after the hub has ended")
		}
		if _, err := h.Subscribe(uuid.New()); !errors.Is(err, ErrClosed) {
			t.Errorf("Subscribe() = %v, want ErrClosed", err)
		}
	})
}

func TestStreamIsServerSentEvents(t *testing.T) {
	w := httptest.NewRecorder()
	s, err := Open(w)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(Event{"a=1", "fragment", map[string]string{"html": "<b>\n</b>"}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Send(Event{"two\nlines", "fragment", nil}); err == nil {
		t.Error("an id of two lines was sent")
	}
	want := ": \n\nid: a=1\nevent: fragment\ndata: {\"html\":\"\\u003cb\\u003e\\n\\u003c/b\\u003e\"}\n\n"
	if diff := cmp.Diff(want, w.Body.String()); diff != "" {
		t.Errorf("stream (-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{"Content-Type": "text/event-stream", "X-Accel-Buffering": "no", "Cache-Control": "no-store, no-transform"} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}

// A reader that takes nothing is cut off: the stream's goroutine does not stay behind.
func TestReaderThatTakesNothingIsCutOff(t *testing.T) {
	ended := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ended <- flood(w)
	}))
	defer server.Close()
	conn, err := net.Dial("tcp", strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := bufio.NewReaderSize(conn, 16).ReadString('\n'); err != nil { // it reads the status and no more
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("the stream took what nobody read")
	}
}

// flood writes until the writing fails.
func flood(w http.ResponseWriter) error {
	s, err := Open(w)
	s.patience = 100 * time.Millisecond
	body := strings.Repeat("x", 1<<16)
	for range 10_000 {
		if err != nil {
			return err
		}
		err = s.Send(Event{"1", "fragment", body})
	}
	return err
}

// A reader that takes a little of each event is cut off after the time that all of them together have.
func TestReaderThatTricklesIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, writer := net.Pipe()
		defer reader.Close()
		ended := make(chan time.Duration, 1)
		go http.Serve(once(writer), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			s, _ := Open(w)
			began := time.Now()
			s.Send(slices.Repeat([]Event{{"1", "fragment", "a part of a page"}}, 100)...)
			ended <- time.Since(began)
		}))
		io.WriteString(reader, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		var reading sync.WaitGroup
		reading.Go(func() {
			for _, err := reader.Read(make([]byte, 64)); err == nil; _, err = reader.Read(make([]byte, 64)) {
				<-time.After(time.Second) // a whole event in two, and each within the time
			}
		})
		if took := <-ended; took != writeTime {
			t.Errorf("a hundred events were sent for %v, want the reader cut off after %v", took, writeTime)
		}
		reader.Close()
		reading.Wait()
	})
}

// once is a listener to which one connection comes.
func once(c net.Conn) net.Listener { return &single{c} }

type single struct{ net.Conn }

func (s *single) Accept() (net.Conn, error) {
	c := s.Conn
	if s.Conn = nil; c == nil {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (*single) Addr() net.Addr { return &net.TCPAddr{} }
func (*single) Close() error   { return nil }
