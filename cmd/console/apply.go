package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/migrations"
)

type applyCmd struct {
	File   string `short:"f" required:"" help:"The manifest; - is standard input." env:"-"`
	DryRun bool   `help:"Show what would change and change nothing." env:"-"`
}

// Run publishes the manifest, one transaction a project, and prints what changed.
func (c applyCmd) Run(ctx context.Context, e env) error {
	manifest, err := c.read(e.stdin)
	if err != nil {
		return usageError{err}
	}
	pool, err := openAs(ctx, e, migrations.RoleAdmin)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := builtFor().Check(ctx, pool); err != nil {
		return err
	}
	changes, err := catalog.Apply(ctx, pool, manifest, catalog.Options{DryRun: c.DryRun})
	for _, change := range changes { // also before an error: these projects are published
		if _, err := change.WriteTo(e.stdout); err != nil {
			return err
		}
	}
	if !c.DryRun {
		if err := hintNew(e.stdout, changes); err != nil {
			return err
		}
	}
	if _, ok := errors.AsType[catalog.Mistakes](err); ok {
		return usageError{err} // found only beside what is published already
	}
	return err
}

// hintNew says who sees the projects that are new: nobody, for a role is given in a project that is there already.
func hintNew(w io.Writer, changes []catalog.ProjectChange) error {
	var b strings.Builder
	for _, change := range changes {
		if change.New() {
			fmt.Fprintf(&b, "  console grant --project %s --role owner --subject ISSUER SUBJECT\n", change.Project)
		}
	}
	if b.Len() == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "nobody sees a new project yet; give somebody a role who has signed in once, such as\n%s", &b)
	return err
}

func (c applyCmd) read(stdin io.Reader) (catalog.Manifest, error) {
	if c.File == "-" {
		return catalog.Read("standard input", stdin)
	}
	file, err := os.Open(c.File)
	if err != nil {
		return catalog.Manifest{}, fmt.Errorf("--file: %w", withoutOperation(err))
	}
	defer file.Close()
	return catalog.Read(c.File, file)
}
