/* A queue of contenders (C5 to C7 in docs/design.md; queue.go, waiter.go, armed.go, place.go and shortcut.go in internal/znode).

   Contenders 0 and 1 belong to one client, contender 2 to another. Each wants the lock once. What a server sends arrives in the order of its
   transactions, and what a contender reads, it reads behind all earlier events. A fault is a lost connection, perhaps with a create that
   arrives late; a lost event of a contender; a change; a deletion by hand; a caller that gives up; or the end of a session. Left out are the
   look from two ahead, queues of several kinds, and the bound on czxids for a lost event of the parent. */

#ifndef OFF
#define OFF 0
#endif
#define OWNED   (OFF != 1)  /* a list without one's own contender never means "first" */
#define STANDS  (OFF != 2)  /* a waiter is not granted if the watch on its own node has fired */
#define DELETED (OFF != 3)  /* a watch that fires for a reason other than the deletion grants nothing */
#define LAST    (OFF != 4)  /* a waiter is armed only if its predecessor is its only obstacle */
#define ORDERED (OFF != 5)  /* events and answers arrive in the order of the transactions */
#define PROVEN  (OFF != 6)  /* a hold ends before the server ends its session (C2) */
#define ENDED   (OFF != 7)  /* a hold has ended before its release hands the place over */
#define BEHIND  (OFF != 8)  /* the place goes to the waiter directly behind, if it is of the same session */
#define FIRST   (OFF != 9)  /* a contender leaves a vacancy only if it was first */
#define NEXT    (OFF != 10) /* only the next number fills a vacancy */
#define PARENT  (OFF != 11) /* and only if the watch on the parent has not fired */
#define SWEEP   (OFF != 12) /* a contender that was sent in several copies removes all of them */
#define COPY    (OFF != 13) /* a contender behind a copy of itself queues again */
#define RECHECK (OFF != 14) /* a waiter reads again if it hears nothing for a long time */

#define NODES 6
#define NONE  15
#define PARENTS 16                          /* an event of parent n is PARENTS + n */
#ifndef FAULTS
#define FAULTS 1
#endif

mtype = { unset, set, deleted, changed };   /* a watch, as the client sees it */

typedef Node { bool there; byte by; byte session; byte number } /* the index is the order of creation, and hence of the czxids */
Node node[NODES];
byte made, parent, numbers, here;           /* the number of nodes; which parent, its next number, the number of its children */
byte faults = FAULTS;
bool over[3];                               /* the server has ended the session */
chan down[3] = [4] of { byte };             /* the events to each session, in order */

byte session[3];                            /* of each contender; 2 is the next session of a client that loses its own */
bool lost[3];                               /* the client knows that the session has ended, or is not proven */
byte me[3] = NONE, ahead[3] = NONE;         /* the contender's node, and its predecessor by the last list */
mtype own[3] = unset, left[3] = unset;      /* the watches on them */
bool creating[3], doubt[3], late[3], copies[3]; /* a create: was requested, lost its connection, hangs in a server, was sent again */
bool holds[3], ours[3], given[3];           /* the predecessor is of the same session, and has handed its place over */
bool byhand[3];                             /* the contender's node was deleted by hand, and it may not know yet */
bool leaving[NODES];                        /* the contender has ended its hold, or has given up */
mtype onparent = unset; byte watched, watchno; /* the watch on the parent, of the client of contenders 0 and 1 */
byte leader = NONE, vacant = NONE, vacantno; /* shortcut: the last contender that was first; its number; the watch at that time */
byte done;

#define watches(c, n) (me[c] == n && own[c] == set || ahead[c] == n && left[c] == set)
#define alive         (!lost[session[c]])
#define told          (len(down[session[c]]) == 0 || !ORDERED)
#define room          (len(down[0]) < 4 && len(down[1]) < 4 && len(down[2]) < 4)
#define mine(n)       (node[n].there && node[n].by == c && node[n].session == session[c])

inline send(s, e) { if :: !over[s] && !lost[s] -> down[s]!e :: else fi }
inline drop(n) { /* the server deletes n, and notifies its watchers */
	node[n].there = false; node[n].by = 0; node[n].session = 0; node[n].number = 0; leaving[n] = false; here--;
	if :: watches(0, n) || session[1] == session[0] && watches(1, n) -> send(session[0], n) :: else fi;
	if :: session[1] != session[0] && watches(1, n) -> send(session[1], n) :: else fi;
	if :: watches(2, n) -> send(session[2], n) :: else fi
}
inline make(c) { 
	node[made].there = true; node[made].by = c; node[made].session = session[c]; node[made].number = numbers;
	printf("the server makes node %d, number %d, for contender %d\n", made, numbers, c); made++; numbers++; here++
}

/* No other contender holds, and no other is ahead. Exempt are a contender that does not know yet that its node was deleted by hand, and a
   leaving contender ahead, of the same session. */
inline grant() {
	assert(byhand[c] || !(c != 0 && holds[0] && !byhand[0] || c != 1 && holds[1] && !byhand[1] || c != 2 && holds[2] && !byhand[2]));
	i = 0; do :: i < me[c] -> assert(!node[i].there || leaving[i] && node[i].session == session[c]); i++ :: else -> break od; i = 0;
	holds[c] = true; given[c] = false; ours[c] = false; left[c] = unset; ahead[c] = NONE; more = false;
	if :: own[c] == unset -> own[c] = (node[me[c]].there -> set : deleted) :: else fi; /* it watches its own node */
	if :: c < 2 -> leader = me[c] :: else fi
}

proctype Contender(byte c; byte rounds) {
	byte i, p, vacancy = NONE, no; bool more, by;
start:	atomic {
		if :: lost[session[c]] -> session[c] = 2 :: else fi;
		if :: made == NODES -> goto last :: else fi;
		creating[c] = true; doubt[c] = false;
		if :: c < 2 && vacant != NONE && session[c] == 0 -> vacancy = vacant; no = vacantno; vacant = NONE; vacantno = 0 :: else fi }
create:	if
	:: atomic { alive && !doubt[c] && !over[session[c]] && told && made < NODES -> make(c); me[c] = made - 1; creating[c] = false }
	:: atomic { alive && doubt[c] && told -> /* a barrier and a search; what it finds was applied before the connection was lost */
		doubt[c] = false; i = 0;
		do :: i < made && mine(i) -> me[c] = i; break :: i < made && !mine(i) -> i++ :: i == made -> break od; i = 0;
		if
		:: me[c] != NONE -> creating[c] = false
		:: me[c] == NONE && made < NODES -> late[c] = false; make(c); me[c] = made - 1; creating[c] = false
		:: me[c] == NONE -> copies[c] = true; goto create
		fi }
	:: atomic { !alive || made == NODES -> goto leave }
	fi;
	atomic {
		if
		:: alive && vacancy != NONE && (onparent == set && no == watchno || !PARENT) && (node[me[c]].number == vacancy + 1 || !NEXT && node[me[c]].there) ->
			vacancy = NONE; no = 0; printf("contender %d holds, by the vacancy\n", c); grant(); goto hold
		:: else -> vacancy = NONE; no = 0;
		fi }
list:	atomic { told || !alive ->
		own[c] = unset; left[c] = unset; ahead[c] = NONE; ours[c] = false; given[c] = false; p = NONE; more = false; i = 0;
		byhand[c] = byhand[c] && node[me[c]].there; /* otherwise it knows */
		if :: !alive || OWNED && !node[me[c]].there -> p = 0; goto leave :: else fi;
		do :: i < me[c] -> if :: node[i].there -> more = more || p != NONE; by = by || mine(i); p = i :: else fi; i++ :: else -> break od; i = 0;
		if
		:: p == NONE -> p = 0; by = false; printf("contender %d holds, by a list\n", c); grant(); goto hold
		:: p != NONE && by && COPY -> p = 0; by = false; goto leave
		:: else -> ahead[c] = p; ours[c] = node[p].session == session[c] && me[node[p].by] == p && !leaving[p]; p = 0; by = false
		fi }
look:	atomic { told || !alive -> left[c] = (node[ahead[c]].there -> set : deleted); own[c] = (node[me[c]].there -> set : deleted); byhand[c] = byhand[c] && node[me[c]].there }
	if
	:: atomic { !alive -> goto leave }
	:: atomic { alive && given[c] && (own[c] == set || !STANDS) -> printf("contender %d is handed the lock\n", c); grant() }
	:: atomic { alive && !given[c] && (left[c] == deleted || left[c] == changed && !DELETED) && (!more || !LAST) && (own[c] == set || !STANDS) ->
		printf("contender %d holds, by an event\n", c); grant() }
	:: atomic { alive && (left[c] == changed && DELETED || left[c] == deleted && more && LAST || own[c] != set && STANDS) -> goto list }
	:: atomic { timeout && RECHECK && left[c] == set && own[c] == set && (!node[ahead[c]].there || !node[me[c]].there) -> goto look }
	:: atomic { faults > 0 && alive -> faults--; rounds--; printf("contender %d gives up\n", c); goto leave }
	fi;
hold:	if
	:: atomic { holds[c] -> holds[c] = !ENDED; rounds--; /* it releases, and hands over to the waiter directly behind */
		leaving[me[c]] = node[me[c]].there; printf("contender %d releases\n", c);
		if :: alive && c < 2 && !copies[c] && (ours[1 - c] && ahead[1 - c] == me[c] || !BEHIND && left[1 - c] == set) -> given[1 - c] = true :: else fi }
	:: atomic { !holds[c] -> rounds-- } /* it has lost the lock */
	fi;
leave:	atomic { room -> holds[c] = false; own[c] = unset; left[c] = unset; ahead[c] = NONE; ours[c] = false; given[c] = false; more = false; byhand[c] = false;
		if
		:: me[c] != NONE && node[me[c]].there && !over[session[c]] && alive ->
			if :: c < 2 && session[c] == 0 && (leader == me[c] || !FIRST) && onparent == set -> vacant = node[me[c]].number; vacantno = watchno :: else fi;
			drop(me[c])
		:: else
		fi;
		if :: copies[c] && SWEEP && alive && !over[session[c]] -> i = 0; do :: i < made -> if :: mine(i) -> drop(i) :: else fi; i++ :: else -> break od; i = 0 :: else fi;
		creating[c] = false; late[c] = false; copies[c] = false; vacancy = NONE; no = 0;; me[c] = NONE;
		if :: rounds > 0 -> goto start :: else fi }
last:	atomic { creating[c] = false; doubt[c] = false; late[c] = false; done++ }
}

inline fire(c) {
	if :: session[c] == s && ahead[c] == n && left[c] == set -> left[c] = deleted :: else fi;
	if :: session[c] == s && me[c] == n && own[c] == set -> own[c] = deleted; holds[c] = false; byhand[c] = false :: else fi
}
inline renew(c) { /* a holder reads its node at once */
	if :: session[c] == s ->
		if :: left[c] == set -> left[c] = changed :: else fi;
		if :: own[c] == set && holds[c] && !node[me[c]].there -> own[c] = deleted; holds[c] = false :: own[c] == set && !holds[c] -> own[c] = changed :: else fi;
		if :: creating[c] && !doubt[c] -> doubt[c] = true; if :: late[c] = true :: true fi; printf("the create of contender %d is in doubt\n", c) :: else fi
	   :: else fi
}
inline forget() { /* what was in flight to session s */
	do :: len(down[s]) > 0 -> down[s]?n :: else -> break od; n = 0;
	if :: s == 0 -> onparent = unset; vacant = NONE; vacantno = 0 :: else fi
}
inline lose(c) { if :: session[c] == s -> holds[c] = false :: else fi }
inline lost_by_client() { lost[s] = true; lose(0); lose(1); lose(2); forget() }
inline expire() { over[s] = true; n = 0; do :: n < made -> if :: node[n].there && node[n].session == s -> drop(n) :: else fi; n++ :: else -> break od; n = 0 }

proctype World() {
	byte n, s;
end:	do
	:: atomic { len(down[0]) > 0 || len(down[1]) > 0 || len(down[2]) > 0 -> /* a client receives an event */
		if :: len(down[0]) > 0 -> s = 0 :: len(down[1]) > 0 -> s = 1 :: len(down[2]) > 0 -> s = 2 fi;
		down[s]?n;
		if
		:: faults > 0 && n < PARENTS -> faults--; printf("an event of node %d is lost\n", n)
		:: n < PARENTS -> fire(0); fire(1); fire(2)
		:: n >= PARENTS -> if :: onparent == set && n == PARENTS + watched -> onparent = deleted :: else fi
		fi; n = 0; s = 0 }
	:: atomic { here == 0 && numbers > 0 && parent < 2 && room -> /* the next create makes a new parent */
		if :: onparent == set && watched == parent -> send(session[0], PARENTS + parent) :: else fi;
		parent++; numbers = 0; printf("the parent is reaped\n") }
	:: atomic { onparent == unset && numbers > 0 && leader != NONE && watchno < 2 && len(down[0]) == 0 && !lost[0] -> onparent = set; watched = parent; watchno++ }
	:: atomic { late[0] && !over[session[0]] && made < NODES -> late[0] = false; printf("late: "); make(0) }
	:: atomic { late[2] && !over[session[2]] && made < NODES -> late[2] = false; printf("late: "); make(2) }
	:: atomic { faults > 0 && here > 0 && room && done < 3 -> n = 0; do :: !node[n].there -> n++ :: node[n].there -> break :: here > 1 && n < made - 1 -> n++ od;
		if :: node[n].there -> faults--; byhand[node[n].by] = (me[node[n].by] == n); printf("node %d is deleted by hand\n", n); drop(n) :: else fi; n = 0 }
	:: atomic { faults > 0 && left[2] == set -> faults--; left[2] = changed; printf("the data of node %d are changed\n", ahead[2]) }
	:: atomic { faults > 0 && done < 3 && !lost[0] && !lost[1] -> faults--; if :: s = 0 :: s = 1 fi;
		printf("session %d loses its connection\n", s); forget(); renew(0); renew(1); renew(2); s = 0 }
	:: atomic { faults > 0 && done < 3 && !lost[0] && !lost[1] && !over[0] && !over[1] && room -> faults--; if :: s = 0 :: s = 1 fi;
		printf("session %d ends\n", s); if :: PROVEN -> lost_by_client() :: else -> expire() fi; s = 0 }
	:: atomic { (lost[0] && !over[0] || lost[1] && !over[1]) && room -> s = (lost[0] -> 0 : 1); printf("the server ends session %d\n", s); expire(); s = 0 }
	:: atomic { over[0] && !lost[0] || over[1] && !lost[1] -> s = (over[0] -> 0 : 1); lost_by_client(); s = 0 }
	:: atomic { done == 3 && lost[0] == over[0] && lost[1] == over[1] -> assert(here == 0); done = 4 }
	od
}

init { atomic { session[2] = 1; run Contender(0, 1); run Contender(1, 1); run Contender(2, 1); run World() } }
