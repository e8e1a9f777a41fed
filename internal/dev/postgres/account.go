package postgres

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// An account is the user who runs the server and owns its data.
type account struct {
	name     string
	uid, gid uint32
	drop     bool // the caller is root and must become this user
}

// serverAccount chooses the account: the caller, unless that is root; then whoever
// owns the data already, then postgres, then nobody.
func serverAccount(data string) (account, error) {
	if uid := os.Geteuid(); uid != 0 {
		return account{name: strconv.Itoa(uid), uid: uint32(uid), gid: uint32(os.Getegid())}, nil
	}
	info, err := os.Stat(data)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return account{}, err
	}
	if err == nil {
		return ownerOf(info)
	}
	for _, name := range []string{superuser, "nobody"} {
		u, err := user.Lookup(name)
		if err == nil {
			return fromUser(u)
		}
	}
	return account{}, errors.New("root may not run PostgreSQL, and there is no user postgres or nobody to run it")
}

func ownerOf(info fs.FileInfo) (account, error) {
	st := info.Sys().(*syscall.Stat_t)
	if st.Uid == 0 {
		return account{}, errors.New("its data belongs to root, whom PostgreSQL refuses; give it to user postgres or remove it")
	}
	return account{name: "uid " + strconv.Itoa(int(st.Uid)), uid: st.Uid, gid: st.Gid, drop: true}, nil
}

func fromUser(u *user.User) (account, error) {
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return account{}, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return account{}, err
	}
	return account{name: u.Username, uid: uint32(uid), gid: uint32(gid), drop: true}, nil
}

// attr runs a child as the account, in a process group of its own: a Ctrl-C at the
// terminal is for the keeper, which then ends its children in order.
func (a account) attr() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if a.drop {
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	return attr
}

// give makes the account the owner of path.
func (a account) give(path string) error {
	if !a.drop {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}

// mustReach fails, naming the directory in the way, when the account may not
// traverse the directories that lead to path.
func (a account) mustReach(path string) error {
	if !a.drop {
		return nil
	}
	for _, dir := range ancestors(path) {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if !a.mayEnter(info) {
			return fmt.Errorf("user %s, who runs PostgreSQL because root may not, cannot enter %s (mode %#o): use a directory outside it",
				a.name, dir, info.Mode().Perm())
		}
	}
	return nil
}

func (a account) mayEnter(dir fs.FileInfo) bool {
	st, mode := dir.Sys().(*syscall.Stat_t), dir.Mode().Perm()
	switch {
	case st.Uid == a.uid:
		return mode&0o100 != 0
	case st.Gid == a.gid:
		return mode&0o010 != 0
	default:
		return mode&0o001 != 0
	}
}

// ancestors returns the directory path and all above it, the root first.
func ancestors(path string) []string {
	dirs := []string{path}
	for path != filepath.Dir(path) {
		path = filepath.Dir(path)
		dirs = append(dirs, path)
	}
	slices.Reverse(dirs)
	return dirs
}
