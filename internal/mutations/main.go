// Command mutations deletes, one at a time, each line that protects an invariant, and runs the test that must notice.
//
// What is deleted is deleted in an overlay of the go command alone: no file of the repository changes. A deletion whose
// text is no longer there, or that no longer compiles, is a failure of this list, and is reported as one; so is a test
// that fails without any deletion.
//
//	go run ./internal/mutations [-run REGEXP] [-parallel N] [-o docs/model/mutations.md]
//
// The last line is the result:
//
//	mutations: 90 noticed=90
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "mutations:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	only := flag.String("run", "", "only the mutations whose words match this expression")
	document := flag.String("o", "", "write the list and who noticed to this file")
	parallel := flag.Int("parallel", 2, "how many to try at a time")
	flag.Parse()
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	if err := intact(ctx, chosen, *parallel); err != nil {
		return err
	}
	results, err := tryAll(ctx, chosen, *parallel)
	if err != nil {
		return err
	}
	noticed := 0
	for _, r := range results {
		if r.err == nil {
			noticed++
		}
	}
	if *document != "" {
		if err := os.WriteFile(*document, render(results), 0o644); err != nil {
			return err
		}
	}
	fmt.Printf("mutations: %d noticed=%d\n", len(chosen), noticed)
	if noticed != len(chosen) {
		return fmt.Errorf("%d were not noticed", len(chosen)-noticed)
	}
	return nil
}

// tryAll tries each, and says so when it is done; the results are in the order of the list.
func tryAll(ctx context.Context, list []mutation, parallel int) ([]result, error) {
	results := make([]result, len(list))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, m := range list {
		group.Go(func() error {
			began := time.Now()
			results[i] = m.try(ctx)
			if ctx.Err() == nil {
				fmt.Printf("%-8s %5.1f s  %s: %s\n", results[i].verdict(), time.Since(began).Seconds(), m, results[i])
			}
			return ctx.Err()
		})
	}
	return results, group.Wait()
}

func choose(only string) ([]mutation, error) {
	match, err := regexp.Compile(only)
	if err != nil {
		return nil, err
	}
	var chosen []mutation
	for _, s := range sections {
		for _, m := range s.mutations {
			m.section = s.name
			if match.MatchString(m.String()) {
				chosen = append(chosen, m)
			}
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no mutation matches %q", only)
	}
	return chosen, nil
}
