/* Counters and values (C9 in docs/design.md; marked.go and replacement.go in internal/record).

   Two sessions write one node. With COUNTER, a write is one transaction on the node and the marker of the session. Otherwise it is on the
   node alone, and the node can be deleted and created again. A reply may be lost, and the copy may be applied late, after others were sent.
   A read may come from a server that lags. Whatever is claimed about a write must be true at that moment, and stay true. */

#ifndef OFF
#define OFF 0
#endif
#define VERSIONED (OFF != 1)  /* a copy names the version that it replaces */
#define ATONCE    (OFF != 2)  /* COUNTER: one transaction writes the node and the marker */
#define NODEFIRST (OFF != 3)  /* COUNTER: the node is read before the marker */
#define FORWARD   (OFF != 4)  /* a session reads nothing older than what it has read, or was refused for */
#define NUMBERED  (OFF != 5)  /* COUNTER: each update has its own number in the marker */
#define OTHERDATA (OFF != 6)  /* a copy was refused only if the node has other data now */
#define NEXTONE   (OFF != 7)  /* and only if exactly one write has followed */
#define SAMENODE  (OFF != 8)  /* and only if it is the same node, by its czxid */
#define ONCE      (OFF != 9)  /* a node that is created again does not reach the version of a copy in flight */

#ifdef COUNTER
#define KEPT 1                 /* the node cannot be deleted while there is a marker */
#else
#define COUNTER 0
#define KEPT 0
#endif
#define TXNS 6

mtype = { open_, applied, refused, unknown };

/* The server: its states, one per transaction. */
typedef Tree { bool there; byte node; byte version; byte data; byte marker[2] }
Tree state[TXNS];             /* data: the write that wrote last, session * 4 + number; marker: the number of the newest update */
byte head, nodes = 1, faults = 2, remade;
byte times[8];                 /* how often each write was applied */
bool wrong[8];                 /* it was reported as refused */

/* A copy of a write in a server that hangs. */
bool hung[2]; byte hungnode[2], hungversion[2], hungwrite[2];
byte seen[2];                  /* the newest state that the session has read */

inline next() { head++; state[head].there = state[head - 1].there; state[head].node = state[head - 1].node; state[head].version = state[head - 1].version;
	state[head].data = state[head - 1].data; state[head].marker[0] = state[head - 1].marker[0]; state[head].marker[1] = state[head - 1].marker[1] }

/* The server applies write w over version v, or refuses it. The writer has read that version of node d. */
inline apply(s, w, d, v) {
	if
	:: state[head].there && (state[head].version == v || !VERSIONED) && (state[head].node == d || !ONCE) && head < TXNS - 1 ->
		next(); state[head].version++; state[head].data = w; times[w]++; ok = true;
		if :: COUNTER && ATONCE -> state[head].marker[s] = (NUMBERED -> w % 4 + 1 : 1) :: else fi;
		printf("the server applies write %d of session %d over version %d\n", w % 4, s, v);
		assert(times[w] == 1 && !wrong[w])
	:: else -> ok = false; printf("the server refuses write %d of session %d over version %d\n", w % 4, s, v)
	fi
}

/* Session s reads a state that is not older than what it has read before. */
inline read() {
	i = (FORWARD -> seen[s] : 0);
	do :: i < head -> i++ :: break od;
	if :: FORWARD -> seen[s] = i :: else fi
}

proctype Writer(byte s; byte writes) {
	byte i, n, w, version, node, now, marker; bool ok, there, doubt; mtype fate;
	do
	:: n < writes ->
		w = s * 4 + n; doubt = false;
again:		if
		:: atomic { !COUNTER || NODEFIRST || !doubt -> read(); there = state[i].there; now = i }
		:: atomic { COUNTER && !NODEFIRST && doubt -> read(); marker = state[i].marker[s] }
		fi;
		if
		:: atomic { doubt && COUNTER && NODEFIRST -> read(); marker = state[i].marker[s] }
		:: atomic { doubt && COUNTER && !NODEFIRST -> read(); there = state[i].there; now = i }
		:: atomic { else }
		fi;
		atomic {
			if
			:: doubt && COUNTER -> /* Marked.fate */
				if
				:: marker == (NUMBERED -> n + 1 : 1) -> fate = applied
				:: marker != (NUMBERED -> n + 1 : 1) && state[now].version != version -> fate = refused
				:: else -> fate = open_
				fi
			:: doubt && !COUNTER -> /* Replacement.fate, not idempotent */
				if
				:: there && (state[now].node == node || !SAMENODE) && state[now].version == version -> fate = open_
				:: there && (state[now].node == node || !SAMENODE) && (state[now].version == version + 1 || !NEXTONE && state[now].version > version) &&
				   (state[now].data != w || !OTHERDATA) -> fate = refused
				:: else -> fate = unknown
				fi
			:: else -> fate = refused
			fi;
			printf("session %d reads version %d: write %d is %e\n", s, state[now].version, n, fate);
			if
			:: doubt && fate == applied -> assert(times[w] == 1); goto finished
			:: doubt && fate == unknown -> goto finished
			:: doubt && fate == refused -> wrong[w] = true; assert(times[w] == 0); goto finished /* what comes next is another write */
			:: else
			fi;
			if :: !there -> goto finished :: else -> version = state[now].version; node = state[now].node fi
		}
		if
		:: atomic { apply(s, w, node, version); /* with a reply */
			if :: ok -> if :: FORWARD -> seen[s] = head :: else fi; goto finished
			   :: else -> if :: FORWARD -> seen[s] = head :: else fi; if :: doubt -> goto again :: else -> wrong[w] = true; assert(times[w] == 0); goto finished fi fi }
		:: atomic { faults > 0 -> faults--; doubt = true; printf("the reply to write %d of session %d is lost\n", n, s);
			if :: apply(s, w, node, version) :: true :: !hung[s] -> hung[s] = true; hungversion[s] = version; hungnode[s] = node; hungwrite[s] = w fi; goto again }
		fi;
finished:	atomic { n++; doubt = false; version = 0; node = 0; now = 0; marker = 0; there = false; i = 0; ok = false; fate = 0 }
	:: n == writes -> break
	od
}

proctype World() {
	bool ok;
	do
	:: atomic { hung[0] -> hung[0] = false; printf("late: "); apply(0, hungwrite[0], hungnode[0], hungversion[0]) }
	:: atomic { hung[1] -> hung[1] = false; printf("late: "); apply(1, hungwrite[1], hungnode[1], hungversion[1]) }
	:: atomic { !KEPT && remade < 1 && head < TXNS - 2 && state[head].there -> remade++; next(); state[head].there = false; state[head].data = 15; printf("the node is deleted\n");
		next(); nodes++; state[head].there = true; state[head].node = nodes; state[head].version = 1; state[head].data = 14; printf("the node is created again\n") }
	od
}

init { atomic { state[0].there = true; state[0].node = 1; state[0].version = 1; state[0].data = 15; run Writer(0, 2); run Writer(1, 1); run World() } }
