/**
 * Number of the present batch of socket events. What a socket delivers in the batch in which it was
 * written to had arrived before: the system tells once a batch which sockets are readable. Other
 * batches tell nothing of that kind.
 *
 * Turns of the event loop would be too coarse: timers and immediates run before and after the batch of
 * their turn, and when very many sockets are ready the loop asks the system more than once a turn.
 */
export function eventBatch(): number {
  const { loopCount, events } = performance.nodeTiming.uvMetricsInfo;
  return loopCount + events;
}
