/* Counters and values (C9 in docs/design.md; marked.go and replacement.go in internal/record).

   Writer 0 makes two writes, writer 1 makes one. A counter is written together with the writer's marker; a value is written alone. A
   reading may come from a server that lags, but a session never reads what is older than it has read. A copy of a write whose
   reply was lost may come late, from a server that hung. The node can be deleted by hand, unless a marker is below it. */

#ifndef OFF
#define OFF 0
#endif
#define VERSIONED (OFF != 1)  /* a write names the version that it replaces */
#define ATONCE    (OFF != 2)  /* one transaction writes the node and the marker */
#define NODEFIRST (OFF != 3)  /* the node is read before the marker */
#define MONOTONE  (OFF != 4)  /* a session reads nothing older than it has read */
#define TOLD      (OFF != 5)  /* the server that refuses a copy has applied what changed the version */
#define NUMBERED  (OFF != 6)  /* the marker has the number of the update */
#define LIVING    (OFF != 7)  /* the update goes on only in the session of its marker */
#define OTHERDATA (OFF != 8)  /* VALUE: a write was refused only if the next version has other data */
#define NEXTONE   (OFF != 9)  /* VALUE: and only if exactly one write followed */
#define SAMENODE  (OFF != 10) /* VALUE: and only if the node is the same one, by its czxid */
#define NOTAGAIN  (OFF != 11) /* VALUE: a node that is made again does not reach the version of a copy that is on its way */
