/*
 * One Schedule between two replicas: claim, decide, commit, takeover, publish, pause and resume, with a crash, a COMMIT
 * whose answer is lost, and a clock that goes on whenever it likes, which is to say replicas as slow as you like.
 *
 * Every statement of PostgreSQL is one or more steps here, with the row lock between them; what a transaction writes is
 * seen when it commits. Instants are the numbers from 1 to INSTANTS, and an occurrence is due at each of them.
 *
 * What must hold is asserted where it could break:
 *
 *   untouched   a commit goes on only if nothing it was decided from has changed since its claim, and before its expiry
 *   mine        nobody takes a claim that is held and has not expired, and nobody claims what is paused
 *   once        an instant has at most one Run
 *   accounted   when nothing can happen any more, every instant that has passed has exactly one Run or row of the account
 *   known       whoever settles a lost answer finds out only after the transaction has ended
 *
 * What -DNO_... takes away is a line that protects. `make model` takes each of them away and expects a violation.
 *
 *   -DMEDDLE   somebody changes one fact, and nothing that the rules say should change with it
 *   -DBACK     somebody sets the cursor back, by the rules
 */

#define INSTANTS 2
#define HORIZON  4   /* where the clock stops */
#define LEASE    1
#define FREE     0

/* The row of the Schedule. */
byte next = 1;       /* next_fire_at_ms */
byte token, expires; /* of the claim, 0 for none */
byte version;        /* claim_version */
byte state;          /* state_version */
bool paused;
byte head = 1;       /* the Trigger's current revision */

byte now;            /* the database clock */
byte lock = FREE;    /* who holds the row */

/* The facts. */
byte runs[INSTANTS + 1];
byte account[INSTANTS + 1];

/* What the model knows and nobody else does. */
byte era;            /* changes with everything that a decision is made from */
byte tokens;
byte crashes, lost;
bool inflight[3];    /* a COMMIT of this replica is on its way and its connection is gone */

#define due       (next <= INSTANTS && next <= now)
#define expired   (expires <= now)

/* What may be claimed: the WHERE of the claim, which also decides once the row is locked. */
#ifdef NO_TAKEOVER
#define unheld    (token == 0)
#elif defined(NO_UNHELD)
#define unheld    true
#else
#define unheld    (token == 0 || expired)
#endif
#ifdef NO_PAUSED_IN_CLAIM
#define claimable (due && unheld)
#else
#define claimable (due && unheld && !paused)
#endif

#define take(who) lock == FREE -> lock = who
#define release   lock = FREE

/* passed accounts for the instants from one to before another. */
inline passed(from, before) {
	i = from;
	do
	:: i < before && i <= INSTANTS -> account[i]++; i++
	:: else -> break
	od;
	i = 0
}

/* rewrite is what every writer of a Schedule's definition does to its row: no earlier claim can ever commit. */
inline rewrite() {
	token = 0; expires = 0; version++; state++; era++
}

/* write is what the transaction of a commit does when it commits. */
inline write(at, after, since) {
	assert(era == since);
	if
#ifndef NO_UNIQUE
	:: runs[at] > 0 -> skip /* already admitted: the cursor advances and nothing else is written */
#endif
	:: else -> runs[at]++
	fi;
	assert(runs[at] <= 1);
	passed(at + 1, after);
	next = after; token = 0; expires = 0; state++; era++
}

chan sent = [1] of { byte, byte, byte, byte };

proctype Replica(byte me) {
	byte i, at, after, acquired, cToken, cExpires, cVersion, cState, cHead, since, clock, granted;
	bool again;

idle:
	again = false; at = 0; after = 0; acquired = 0; cToken = 0; cExpires = 0; cVersion = 0; cState = 0; cHead = 0; since = 0; clock = 0; granted = 0;
end:
	/* The claim, one statement: it finds the row, and looks at it again once it has the lock. */
	claimable;
	if
	:: atomic { take(me) }
	:: lock != FREE -> goto idle /* SKIP LOCKED */
	fi;
	atomic {
		if
#ifndef NO_RECHECK
		:: !claimable -> release; goto idle
#endif
		:: else
		fi;
		assert(due && !paused && (token == 0 || expired)); /* mine */
		tokens++; token = tokens; version++; state++; era++;
		acquired = now; expires = now + LEASE;
		at = next; cToken = token; cExpires = expires; cVersion = version; cState = state; cHead = head; since = era;
		release
	}

	/* The decision, from the claim alone: the next instant after the claim was acquired. */
	after = acquired + 1;
	if
	:: skip
	:: atomic { crashes == 0 -> crashes++ } -> goto idle
	:: atomic { crashes == 0 -> crashes++ } -> goto dead
	fi;

commit:
#ifdef NO_LATE_CLOCK
	clock = now;
#endif
	atomic {
#ifndef NO_LOCK
		take(me);
#endif
		granted = now;
#ifndef NO_LATE_CLOCK
		clock = now; /* read beside the lock, when it is granted */
#endif
	}
	atomic {
		if
		:: (true
#ifndef NO_TOKEN
			&& token == cToken
#endif
#ifndef NO_VERSION
			&& version == cVersion
#endif
#ifndef NO_EXPIRES
			&& expires == cExpires
#endif
#ifndef NO_EXPIRED
			&& clock < cExpires
#endif
#ifndef NO_CLOCK_BACK
			&& clock >= acquired
#endif
#ifndef NO_STATE
			&& state == cState
#endif
#ifndef NO_CURSOR
			&& next == at
#endif
#ifndef NO_HEAD
			&& head == cHead
#endif
#ifndef NO_PAUSED
			&& !paused
#endif
			) -> assert(era == since && granted < cExpires && granted >= acquired) /* untouched */
		:: else -> /* raced */
			if
			:: lock == me -> release
			:: else
			fi;
			goto idle
		fi
	}
	if
	:: atomic { write(at, after, since); release }
	:: atomic { lost == 0 -> lost++; inflight[me] = true; sent!me,at,after,since } -> goto settle
	:: atomic { crashes == 0 -> crashes++; release } -> goto idle /* the server rolls back */
	fi;
	goto idle;

settle:
	/* A COMMIT without an answer: the row's lock first, and then what is there. */
	atomic {
#ifndef NO_SETTLE_LOCK
		take(me);
#endif
		assert(!inflight[me]); /* known */
		if
		:: token == cToken && version == cVersion && !again -> again = true; release; goto commit
		:: else -> release; goto idle
		fi
	}

dead:
	skip
}

/* The server, when it has a COMMIT and no client: it commits or, if the request was lost too, rolls back. */
active proctype Server() {
	byte who, at, after, since, i;
end:
	sent?who,at,after,since;
	atomic {
		if
		:: write(at, after, since)
		:: skip
		fi;
		inflight[who] = false; release
	}
}

#if !defined(MEDDLE) && !defined(BACK)
/* A publisher changes the definition, accounts for what was due and begins anew after now, all in one transaction. */
active proctype Publisher() {
	byte i;
	if
	:: skip
	:: goto end
	fi;
#ifndef NO_REWRITE
	atomic { take(9) }
	atomic { passed(next, now + 1); next = now + 1; head++; rewrite(); release }
#else
	atomic { head++; era++ }
#endif
end:
	skip
}

/* An operator pauses and, later, resumes: from now, or once for what was missed. */
active proctype Operator() {
	byte i;
	if
	:: skip
	:: goto end
	fi;
#ifndef NO_PAUSE_LOCK
	atomic { take(8) }
	atomic { paused = true; rewrite(); release }
#else
	atomic { paused = true; era++ }
#endif
	atomic { take(8) }
	atomic {
		if
		:: passed(next, now + 1); next = (next > now -> next : now + 1)
		:: skip
		fi;
		paused = false; rewrite(); release
	}
end:
	skip
}

#endif

active proctype Clock() {
	do
	:: now < HORIZON -> now++
	:: else -> break
	od
}

#ifdef MEDDLE
/* Somebody who changes one fact, breaking every rule that others follow. */
active proctype Meddler() {
	atomic {
		take(7);
		if
		:: token = 99
		:: version++
		:: expires++
		:: state++
		:: next++
		:: head++
		:: paused = !paused
		fi;
		era++; release
	}
}

/* A new primary whose clock is behind. */
active proctype ClockBack() {
	atomic { now > 0 -> now-- }
}
#endif

#ifdef BACK
/* Somebody who sets the cursor back to what has had its Run. */
active proctype Restorer() {
	atomic { take(6) }
	atomic { next = 1; rewrite(); release }
}
#endif

init {
	byte i;
	atomic { run Replica(1); run Replica(2) }
#if !defined(MEDDLE) && !defined(BACK)
	timeout;
	/* A claim that a dead replica holds is all that may be left, where the clock has stopped before its expiry. */
	i = 1;
	do
	:: i <= INSTANTS -> assert(runs[i] + account[i] == 1 || (i >= next && token != 0 && !expired)); i++
	:: else -> break
	od
#endif
}
