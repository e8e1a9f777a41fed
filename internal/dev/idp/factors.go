package idp

// What acr says, weakest first.
const (
	ACRSingleFactor = "urn:qinglong:dev:1fa"
	ACRMultiFactor  = "urn:qinglong:dev:mfa"
	ACRHardware     = "urn:qinglong:dev:hardware"
)

// A level is how strong a sign-in was. The order counts.
type level int

const (
	nothing level = iota
	singleFactor
	multiFactor
	hardware
)

var acrs = map[level]string{singleFactor: ACRSingleFactor, multiFactor: ACRMultiFactor, hardware: ACRHardware}

// levelOf is the level an acr names, or nothing.
func levelOf(acr string) level {
	for l, a := range acrs {
		if a == acr {
			return l
		}
	}
	return nothing
}

// factors are what a person has proved in one sitting.
type factors struct {
	Password bool
	Code     bool
	Passkey  bool
	Bound    bool // the passkey cannot leave its device
	Verified bool // the passkey verified who used it, by PIN or finger
}

// two reports whether the factors are of two kinds: something known, something held, something one is.
func (f factors) two() bool {
	return f.Password && (f.Code || f.Passkey) || f.Passkey && f.Verified
}

func (f factors) level() level {
	switch {
	case f.two() && f.Passkey && f.Bound:
		return hardware
	case f.two():
		return multiFactor
	case f.Password, f.Code, f.Passkey:
		return singleFactor
	}
	return nothing
}

// amr names the factors in the words of RFC 8176.
func (f factors) amr() []string {
	var amr []string
	add := func(done bool, word string) {
		if done {
			amr = append(amr, word)
		}
	}
	add(f.Password, "pwd")
	add(f.Code, "otp")
	add(f.Passkey && f.Bound, "hwk")
	add(f.Passkey && !f.Bound, "swk")
	add(f.Passkey, "user") // somebody touched it
	add(f.two(), "mfa")
	return amr
}
