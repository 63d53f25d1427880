/* The rule of C2 (docs/design.md, and proof.go in internal/liveness): while ValidUntil lies ahead, no server has ended the session.

   One unit of time is half a tick. Server 0 leads, and server 1 follows it. Server 2 follows it too, until it takes over as its successor.
   Server 0 does not know about that, and in an ensemble of five neither does server 1. Requests take any time to reach the leader. A
   slow answer only makes the client more careful, so in this model an answer arrives at once or never. The assertion CHECK is the promise:
   what the leader knows keeps the session alive until ValidUntil, even if nothing more reaches it. */

#ifndef OFF
#define OFF 0
#endif
#define ORDERED   (OFF != 1)  /* reports and requests of a follower reach the leader in the order in which they were sent */
#define PINGED    (OFF != 2)  /* a follower that forwards requests is asked for reports twice a tick */
#define REPORTED  (OFF != 3)  /* a contact counts only if its answer arrived half a tick before the leader was queried */
#define REPLACED  (OFF != 4)  /* and 1.5 ticks, because the leader may have been replaced */
#define NOTICES   (OFF != 5)  /* a leader that was replaced stops within 1.5 ticks */
#define CONTACT   (OFF != 6)  /* the answer to a resumption proves no more than any other contact */
#define WRITTEN   (OFF != 7)  /* only a write that was applied proves a resumption at once; a sync does not */
#define DOUBTED   (OFF != 8)  /* a resumption without an answer may have shortened the session */
#define LEASTOF   (OFF != 9)  /* the client knows the least timeout that a server may grant: WithLeastTimeout */
#define SETTLED   (OFF != 10) /* the answer to a later resumption ends the doubt only once it is proven */
#define LEAST     (OFF != 11) /* T is the least timeout that was ever granted */
#define INTIME    (OFF != 12) /* a resumption does not reach the leader behind a later one */
#define MARGIN    (OFF != 13) /* a margin covers a leader whose clock runs fast */

#define LONG   16              /* timeouts that servers grant: 8 ticks, and 6 */
#ifndef SHORT
#define SHORT  12
#endif
#ifndef WINDOW
#define WINDOW 5               /* how long the model runs */
#endif
#define LAG    (REPORTED -> (REPLACED -> 3 : 1) : 0)
#define NONE   255
#define max(a, b) ((a) > (b) -> (a) : (b))
#define min(a, b) ((a) < (b) -> (a) : (b))

mtype = { report, sync, write, resume };

byte now = 1;

/* The servers. Index 0 is server 0 as leader, and index 1 is its successor, server 2. */
bool replaced, away;           /* server 2 has taken over; server 1 follows it */
byte began, created;           /* when that was; the timeout that the session was created with */
byte touched[2], term[2];      /* when the leader last heard of the session, and how long it may live from then on */
bool heard;                    /* server 1 has heard from the client, and has not reported it */
byte served;                   /* when the newest resumption was sent that a leader has served */
chan up = [2] of { mtype, byte, byte }; /* from server 1 to its leader: kind, time of sending, timeout to grant */

/* The client. */
byte server = 1;               /* NONE if it has no connection */
byte contact, pinged;          /* proven; when the newest contact was sent and answered that is not proven */
byte asked; bool asking;       /* a sync or a write: when it was sent; it is in flight */
byte joined; bool joining;     /* a resumption: the same */
byte resumed, newest, least;   /* when the newest answered one was sent; the timeouts */
byte pending = NONE, doubt = NONE; /* until when the newest resumption, and those before it, leave the session alive */

#define works(l)   ((l) == 1 || !replaced || now <= began + (NOTICES -> 3 : 5))
#define leader     (away -> 1 : 0) /* of server 1 */
#define validUntil min(contact + (LEAST -> least : newest) - (MARGIN -> 1 : 0), min(pending, doubt))
#define endsAt     (touched[replaced] + term[replaced] - 1) /* by a clock that runs fast, by one unit */
#define CHECK      printf("%d: valid until %d; the leader would end the session at %d\n", now, validUntil, endsAt); assert(validUntil <= endsAt)

inline settle() { if :: contact >= joined -> doubt = NONE :: else fi } /* if the resumption is proven */

inline answered(leads) { /* Proof.Answered: a leader vouches for it, or a quorum */
	if :: pinged > 0 && pinged + LAG <= asked -> contact = max(contact, pinged); pinged = 0 :: else fi;
	if :: leads == 2 || !WRITTEN -> contact = max(contact, resumed) :: else fi;
	asking = false; printf("%d: the sync or write of %d is answered\n", now, asked); settle(); CHECK
}

inline serve(l) { /* leader l serves what has arrived */
	if
	:: what == report -> touched[l] = now; printf("%d: the leader receives a report\n", now)
	:: what == sync && asking && sent == asked -> answered(1)
	:: what == write && asking && sent == asked && l == replaced -> answered(2)
	:: what == resume && (!INTIME || sent >= served) ->
		touched[l] = now; term[l] = granted; served = sent; printf("%d: leader %d resumes the session for %d\n", now, l, granted);
		if
		:: joining && sent == joined -> /* Proof.connected */
			joining = false; newest = granted; least = min(least, granted); resumed = joined; pinged = now;
			printf("%d: the resumption is answered\n", now);
			pending = NONE; if :: !SETTLED -> doubt = NONE :: else fi;
			if :: !CONTACT -> contact = resumed :: else fi;
			settle()
		:: true /* the answer is lost, or arrives too late */
		fi;
		CHECK
	:: else
	fi
}

inline disconnect() { server = NONE; asking = false; joining = false }

/* The client sends a request to the leader, or to server 1. */
inline pass(m, t) { what = m; sent = now; granted = t;
	if :: server == 1 -> up!what(now, t) :: server != 1 && works(server / 2) -> serve(server / 2) :: else fi;
	what = 0; sent = 0; granted = 0 }

proctype Client() {
	byte sent, granted; mtype what;
	do
	:: atomic { server != NONE && !joining && pinged < now && (server == 1 || works(server / 2)) ->
		pinged = now; printf("%d: the client hears from server %d\n", now, server);
		if :: server == 1 -> heard = true :: else -> touched[server / 2] = now fi }
	:: atomic { server != NONE && !joining && asked < now && len(up) < 2 ->
		asked = now; asking = true; printf("%d: the client queries the leader through server %d\n", now, server);
		if :: pass(sync, 0) :: resumed > contact -> pass(write, 0) fi }
	:: atomic { joined < now && len(up) < 2 ->
		disconnect(); joined = now; joining = true;
		if :: server = 0 :: server = 1 :: replaced -> server = 2 fi;
		if :: DOUBTED -> doubt = min(doubt, pending); pending = now + (LEASTOF -> SHORT : least) - (MARGIN -> 1 : 0) :: else fi;
		printf("%d: the client resumes its session at server %d\n", now, server);
		if :: pass(resume, LONG) :: SHORT < LONG -> pass(resume, SHORT) fi }
	od
}

proctype Servers() {
	byte sent, granted; mtype what;
	do
	:: atomic { len(up) > 0 && works(leader) ->
		if :: up?what(sent, granted) :: !ORDERED && up??[sync, sent, granted] -> what = sync; up??sync(sent, granted) fi;
		serve(leader); what = 0; sent = 0; granted = 0 }
	:: atomic { !replaced -> /* server 2 is elected, and starts counting now */
		replaced = true; began = now; touched[1] = now; term[1] = created; printf("%d: server 2 takes over\n", now); CHECK }
	:: atomic { replaced && !away -> /* server 1 starts over with the new leader */
		if :: server == 1 -> disconnect() :: else fi;
		do :: len(up) > 0 -> up?what(sent, granted) :: else -> break od; what = 0; sent = 0; granted = 0;
		heard = false; away = true; printf("%d: server 1 follows server 2\n", now) }
	od
}

proctype Clock() {
	do
	:: atomic { now < WINDOW && (!heard || len(up) < 2 || !PINGED) -> /* server 1 is asked for a report before a unit is over */
		if :: heard && len(up) < 2 -> up!report(0, 0); heard = false; printf("%d: server 1 reports\n", now) :: !heard || !PINGED fi;
		now++ }
	od
}

init {
	atomic {
		if :: created = LONG :: SHORT < LONG -> created = SHORT fi;
		newest = created; least = created; term[0] = created;
		run Client(); run Servers(); run Clock()
	}
}
