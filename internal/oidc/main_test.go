package oidc

import (
	"os"
	"testing"

	"github.com/qinglong/console/internal/pg/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
