package oidc

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

const maxAnswer = 1 << 20 // bytes; go-oidc reads whatever comes

// errRedirected reports that a provider's endpoint answered with a redirect. None is followed: a token request that is
// sent on carries code and client secret to wherever the answer points.
var errRedirected = errors.New("the endpoint answers with a redirect")

// httpClient makes every call to a provider: bounded in time, in size and in where it leads.
func httpClient(timeout time.Duration) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 4
	return &http.Client{
		Timeout:       cmp.Or(timeout, 10*time.Second),
		Transport:     bounded{transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirected },
	}
}

// bounded ends an answer after maxAnswer, with an error.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer.Body = &boundedBody{ReadCloser: answer.Body, left: maxAnswer}
	return answer, nil
}

type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
