/** What a connection does at present. */
export type ConnectionStage =
  /** It has sent no complete request yet; a TLS handshake is a part of this stage. */
  | 'opened'
  /** A request has begun, and has not ended. */
  | 'receiving'
  /** The server works on the answer. */
  | 'answering'
  /** The client reads the answer, or does not read it. */
  | 'sending'
  /** The server has answered, and the connection waits for the next request. */
  | 'idle'
  /** The server has refused, and the client may still read the refusal. */
  | 'ending'

export interface ConnectionState {
  readonly stage: ConnectionStage
  /** The start of the stage, in milliseconds. */
  readonly since: number
}

export interface PlaceLimits {
  /** The most connections. */
  readonly connections: number
  /** The most connections of one peer. */
  readonly ofPeer: number
}

/**
 * The fate of a new connection: there is room, or another connection gives way, or it is refused.
 */
export type Admission<Connection> = 'room' | 'refused' | { readonly drop: Connection }

/**
 * A connection this young, in milliseconds, is not dropped while there is an idle connection of the
 * same peer: its first request is probably on its way, or the client reads the answer.
 */
const YOUNG_MS = 1000

/**
 * Decides about a new connection. The fair share of a peer is the number of all places, divided by
 * the number of peers. A peer within its share loses no connection and is not refused, whatever
 * other peers do. When all places are taken, a larger peer loses a connection; a request that is
 * worked on gives way only to a peer within its share.
 * @param own the connections of the peer
 * @param others the connections of each other peer
 */
export function admission<Connection extends ConnectionState>(
  own: Iterable<Connection>,
  others: Iterable<Iterable<Connection>>,
  { connections, ofPeer }: PlaceLimits,
  now: number,
): Admission<Connection> {
  const mine = [...own]
  const exchange = firstToDrop(mine.filter(isUnused), now)
  const orRefuse = (drop: Connection | undefined) => (drop === undefined ? 'refused' : { drop })
  if (mine.length >= ofPeer) return orRefuse(exchange)
  const peers = [...others].map((peer) => [...peer]).filter(({ length }) => length > 0)
  const count = peers.reduce((sum, { length }) => sum + length, mine.length)
  if (count < connections) return 'room'
  const share = connections / (peers.length + 1)
  const larger = peers
    .filter(({ length }) => length > share && length > mine.length)
    .sort((a, b) => b.length - a.length)
  const unused = larger.map((peer) => peer.filter(isUnused)).find(({ length }) => length > 0)
  if (unused !== undefined) return orRefuse(firstToDrop(unused, now))
  const [largest] = larger
  if (mine.length < share && largest !== undefined) return orRefuse(firstToDrop(largest, now))
  return orRefuse(exchange)
}

/** Whether no work is lost with the connection. */
function isUnused({ stage }: ConnectionState): boolean {
  return stage !== 'answering'
}

/** The oldest of those with the lowest rank. */
function firstToDrop<Connection extends ConnectionState>(
  connections: readonly Connection[],
  now: number,
): Connection | undefined {
  let first: Connection | undefined
  for (const connection of connections)
    if (
      first === undefined ||
      rankOf(connection, now) < rankOf(first, now) ||
      (rankOf(connection, now) === rankOf(first, now) && connection.since < first.since)
    )
      first = connection
  return first
}

function rankOf({ stage, since }: ConnectionState, now: number): number {
  if (stage === 'ending') return 0
  if (stage === 'opened' || stage === 'sending') return now - since < YOUNG_MS ? 3 : 1
  if (stage === 'idle') return 2
  return stage === 'receiving' ? 4 : 5
}
