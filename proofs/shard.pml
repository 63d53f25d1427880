/* The plan of shards (leader.go, plan.go, member.go and worker.go in recipes/shard).

   Members have one shard. One of them leads and writes a plan, which names the owner of the shard. The owner takes the lock of the shard and
   calls its function. Lock, election and group are exact here, since queue.pml and deadline.pml model them. A member reads plans late, and
   may miss some. A fault is a plan that is deleted, corrupted or written by hand; a lost reply, perhaps to a write that arrives late; the
   end of a session or of a term; a crash; a member that leaves. When nothing can proceed, the owner serves the shard. Left out are quotas,
   refusals, members that restart, and two processes with one id. */

#ifndef OFF
#define OFF 0
#endif
#define LOCKED    (OFF != 1)  /* a member calls the function under the lock of the shard */
#define PROVEN    (OFF != 2)  /* a hold ends before the server ends its session (C2) */
#define RETURNED  (OFF != 3)  /* the lock is released after the function has returned */
#define DRAINED   (OFF != 4)  /* a leaving member exits only after its functions have returned */
#define GUARDED   (OFF != 5)  /* a leader writes the plan in the transaction of its term */
#define VERSIONED (OFF != 6)  /* a plan replaces only the plan it was made from */
#define ANEW      (OFF != 7)  /* a leader plans from what it has read in its own term */
#define KEPT      (OFF != 8)  /* without a readable plan, members keep what they have */
#define RECALLED  (OFF != 9)  /* and the next plan gives a shard to the member that holds it */
#define FOLLOWED  (OFF != 10) /* the leader follows the plan, which others may change */
#define AGAIN     (OFF != 11) /* a shard that returns while its worker stops gets another worker */
#define REQUEUED  (OFF != 12) /* a worker that has lost its hold takes the lock again */
#define REJOINED  (OFF != 13) /* a member joins again in the next session */

#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef MEMBERS
#define MEMBERS 3
#endif
#define NONE    4              /* no owner; 3 is the id of a member that does not exist */
#define LOST    5              /* the plan is missing, or cannot be read */
#define UNREAD  255

mtype = { idle, knocks, queued, serves, ending }; /* ending: the function still runs after its hold was lost */

/* The servers. */
byte version, owner = LOST;    /* of the plan */
bool up[3];                    /* the session, and hence the member in the group */
bool leaving[3];               /* what the member announces */
chan lock = [3] of { byte };   /* the contenders of the shard */
byte first = NONE, term;       /* the leader and its term */
bool late; byte latefrom, lateterm, lateover, lateowner; /* a write that hangs in a server */
byte faults = FAULTS;

/* The members. */
bool lost[3], gone[3];         /* its session is no longer proven; it has crashed or left */
byte seen[3]; bool mine[3];    /* the newest plan that it has read, and whether it is the owner */
mtype work[3] = idle;          /* its worker */
bool told[3], again[3];        /* the worker must stop; another one waits for its end */
bool leads[3]; byte my[3];     /* it is in its own term */
byte last[3], at[3] = UNREAD, there[3] = UNREAD; /* the plan that it has read as leader, its version, and the members */
bool written[3];               /* last is in the node */

/* The member that no plan of a leader may take the shard from: the last plan gave it the shard, and it has been present since. */
byte keeper = NONE;

#define linked(c)  (up[c] && !lost[c])
#define holds(c)   (work[c] == serves)
#define stays(c)   (up[c] && !leaving[c])
#define present    (stays(0) + 2 * stays(1) + 4 * stays(2))
#define among(c)   ((there[c] >> last[c]) & 1 && last[c] < 3)

#define served(c)  (work[c] == serves && linked(c) && owner == c && !told[c])
#define able(c)    (!gone[c] && !leaving[c])

inline quit(c) { if :: keeper == c -> keeper = NONE :: else fi }
inline over(c) { up[c] = false; quit(c); if :: lock??[eval(c)] -> lock??eval(c) :: else fi; if :: first == c -> first = NONE :: else fi }
inline depose(c) { leads[c] = false; my[c] = 0; last[c] = (ANEW -> 0 : last[c]); at[c] = (ANEW -> UNREAD : at[c]); there[c] = (ANEW -> UNREAD : there[c]); written[c] = (ANEW -> false : written[c]) }
inline lose(c) { lost[c] = true; depose(c);
	if :: work[c] == serves || work[c] == queued -> work[c] = ending :: else fi }
inline rest(c) { told[c] = false; work[c] = (again[c] -> knocks : idle); again[c] = false }

/* A server applies what member c wrote in term t over version v, or refuses it. */
inline apply(c, t, v, o) {
	if
	:: (first == c && term == t || !GUARDED) && (version == v || !VERSIONED) ->
		version++; printf("plan %d: member %d gives the shard to %d\n", version, c, o);
		assert(term == t); /* a deposed leader changes nothing */
		assert(keeper == NONE || keeper == o); /* a member that is present and has the shard keeps it */
		owner = o; keeper = NONE;
		if :: o < 3 && stays(o) -> keeper = o :: else fi;
		assert(version < 14) /* plans come to an end */
	:: else -> printf("the plan of member %d is refused\n", c)
	fi
}

/* Another client changes the plan. */
inline byhand(o) {
	faults--; version++; owner = o;
	if :: o != LOST || keeper == NONE || !(holds(keeper) && mine[keeper] && !told[keeper]) -> keeper = NONE :: else fi
}

proctype Member(byte c) {
	byte o;
	atomic { up[c] = true; printf("member %d joins\n", c) }
	do
	/* What can happen to it. */
	:: atomic { faults > 0 && linked(c) && !gone[c] -> faults--;
		if :: PROVEN -> lose(c); printf("member %d loses its session\n", c) :: else -> printf("the server ends the session of member %d\n", c); over(c) fi }
	:: atomic { lost[c] && up[c] -> printf("the server ends the session of member %d\n", c); over(c) }
	:: atomic { !lost[c] && !up[c] && !gone[c] -> lose(c); printf("member %d loses its session\n", c) }
	:: atomic { lost[c] && !up[c] && !gone[c] && REJOINED -> lost[c] = false; up[c] = true; printf("member %d joins again\n", c) }
	:: atomic { faults > 0 && up[c] && !gone[c] -> faults--; printf("member %d crashes\n", c); lose(c); gone[c] = true; mine[c] = false; work[c] = idle; told[c] = false; again[c] = false }
	:: atomic { faults > 0 && linked(c) && !gone[c] && !leaving[c] -> faults--; printf("member %d must leave\n", c); leaving[c] = true; quit(c) }
	/* The plan, and the worker. */
	:: atomic { linked(c) && !gone[c] && seen[c] != version -> seen[c] = version;
		if :: owner == c -> mine[c] = true :: owner == LOST && KEPT :: else -> mine[c] = false fi;
		if
		:: mine[c] && work[c] == idle -> work[c] = knocks
		:: mine[c] && work[c] != idle && told[c] && AGAIN -> again[c] = true
		:: !mine[c] -> again[c] = false
		:: else
		fi;
		printf("member %d reads plan %d\n", c, version) }
	:: atomic { work[c] != idle && !mine[c] && !told[c] -> told[c] = true;
		if :: work[c] == serves -> printf("member %d must stop\n", c) :: else fi }
	:: atomic { work[c] == serves && told[c] && !RETURNED && linked(c) && lock??[eval(c)] -> lock??eval(c); printf("member %d releases the lock\n", c) }
	:: atomic { work[c] == knocks && mine[c] && !told[c] && linked(c) ->
		if :: LOCKED -> lock!c; work[c] = queued; printf("member %d queues at the lock\n", c) :: else -> goto serving fi }
	:: atomic { work[c] == queued && !told[c] && linked(c) && lock?[eval(c)] ->
serving:	work[c] = serves; printf("member %d serves the shard\n", c);
		assert(!(c != 0 && holds(0) || c != 1 && holds(1) || c != 2 && holds(2))) }
	:: atomic { (work[c] == knocks || work[c] == queued && linked(c)) && told[c] -> if :: lock??[eval(c)] -> lock??eval(c) :: else fi; rest(c) }
	:: atomic { work[c] == serves && told[c] && linked(c) -> printf("the function of member %d returns\n", c); if :: lock??[eval(c)] -> lock??eval(c) :: else fi; rest(c) }
	:: atomic { work[c] == ending && !gone[c] -> if :: told[c] || !REQUEUED -> rest(c) :: else -> work[c] = knocks fi }
	:: atomic { leaving[c] && linked(c) && !gone[c] && !mine[c] && (work[c] == idle || !DRAINED) ->
		printf("member %d exits\n", c); gone[c] = true; over(c); leads[c] = false }
	/* The leader. */
	:: atomic { first == NONE && linked(c) && !gone[c] && !leads[c] -> first = c; term++; leads[c] = true; my[c] = term; printf("member %d leads, in term %d\n", c, term) }
	:: atomic { leads[c] && linked(c) && (first != c || term != my[c]) -> printf("member %d learns that its term has ended\n", c); depose(c) }
	:: atomic { leads[c] && linked(c) && there[c] != present -> there[c] = present }
	:: atomic { leads[c] && linked(c) && at[c] != version && (FOLLOWED || at[c] == UNREAD) -> at[c] = version; last[c] = owner; written[c] = (owner != LOST) }
	:: atomic { leads[c] && linked(c) && at[c] != UNREAD && there[c] != UNREAD && last[c] == LOST -> last[c] = NONE; written[c] = false;
		if :: RECALLED && len(lock) > 0 -> lock?<o>; last[c] = o; o = 0 :: else fi }
	:: atomic { leads[c] && linked(c) && at[c] != UNREAD && there[c] != UNREAD && last[c] != LOST &&
		!(written[c] && (among(c) || last[c] == NONE && there[c] == 0)) ->
		if
		:: among(c) -> o = last[c]
		:: !among(c) && there[c] & 1 -> o = 0
		:: !among(c) && there[c] & 2 -> o = 1
		:: !among(c) && there[c] & 4 -> o = 2
		:: there[c] == 0 -> o = NONE
		fi;
		if
		:: apply(c, my[c], at[c], o)
		:: faults > 0 && !late -> faults--; printf("the reply to a plan of member %d is lost\n", c);
			if :: apply(c, my[c], at[c], o) :: late = true; latefrom = c; lateterm = my[c]; lateover = at[c]; lateowner = o fi
		fi;
		at[c] = UNREAD; o = 0 } /* it reads the outcome */
	od
}

proctype World() {
	bool over_;
	do
	:: atomic { late -> late = false; if :: printf("late: "); apply(latefrom, lateterm, lateover, lateowner); keeper = NONE :: true fi; latefrom = 0; lateterm = 0; lateover = 0; lateowner = 0 }
	:: atomic { faults > 0 && version > 0 && owner != LOST -> printf("the plan is deleted, or corrupted\n"); byhand(LOST) }
	:: atomic { faults > 0 && version > 0 -> if :: byhand(0) :: byhand(1) :: byhand(3) fi; printf("plan %d is written by hand, for member %d\n", version, owner) }
	:: atomic { faults > 0 && first != NONE -> faults--; printf("the candidate of member %d is deleted by hand\n", first); first = NONE }
	:: atomic { faults > 0 -> faults = 0 }
	:: atomic { timeout && !over_ -> over_ = true; printf("nothing can proceed\n"); assert(served(0) || served(1) || served(2) || !(able(0) || able(1) || able(2))) }
	od
}

init { atomic { run Member(0); run Member(1); if :: MEMBERS == 3 -> run Member(2) :: else -> gone[2] = true fi; run World() } }
