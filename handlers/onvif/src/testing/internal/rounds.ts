import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { isDeepStrictEqual } from 'node:util'
import { type Device, type Logger, silentLogger, systemClock } from '@akrijs/sdk'
import { discover, type InProcessDiscovery, ManualClock } from '@akrijs/sdk/testing'
import { afterEach, beforeEach } from 'vitest'
import { createOnvifHandler } from '../../handler.js'
import { SimulatedCamera, type SimulatedCameraOptions } from '../simulated-camera.js'

/** The address of the cameras. */
export const IP = '127.77.0.1'
/** From the start of a round to the start of the next, by the clock of the test. */
const ROUND_MS = 10_000
/** How long a round waits for answers, by the clock of the test. */
const WINDOW_MS = 1000
/** How long the handler gathers changes for a list, by the clock of the test. */
const GATHER_MS = 100

/** Knows how many rounds wait for answers. */
class RoundClock extends ManualClock {
  waiting = 0

  override async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    const isWindow = ms === WINDOW_MS
    if (isWindow) this.waiting++
    try {
      await super.sleep(ms, signal)
    } finally {
      if (isWindow) this.waiting--
    }
  }
}

export let clock: RoundClock
let cameras: SimulatedCamera[]
let sessions: InProcessDiscovery[]
/** The devices that {@link next} returned last. */
const last = new WeakMap<InProcessDiscovery, readonly Device[]>()

beforeEach(() => {
  clock = new RoundClock(1_000_000)
  cameras = []
  sessions = []
})

afterEach(async () => {
  await Promise.all(sessions.map(close))
  await Promise.all(cameras.map((camera) => camera.close()))
})

/** Starts a camera. Later discoveries search for it, unless their details name other UUIDs. */
export async function start(options: SimulatedCameraOptions = {}): Promise<SimulatedCamera> {
  const camera = await SimulatedCamera.start({ address: IP, ...options })
  camera.faults.delayMs = 0
  cameras.push(camera)
  return camera
}

interface OpenOptions {
  readonly properties?: Readonly<Record<string, string>>
  readonly handler?: ReturnType<typeof createOnvifHandler>
  readonly log?: Logger
}

/** Starts a discovery on the loopback interface, whose rounds a test ends. */
export function open(
  details: object = {},
  { handler = createOnvifHandler({ clock }), properties, log = silentLogger }: OpenOptions = {},
): InProcessDiscovery {
  const uuids = { items: cameras.map(({ uuid }) => uuid) }
  const all = { interfaces: ['lo'], uuids, ...details }
  const session = discover(handler, all, { properties: properties ?? {}, clock, log })
  sessions.push(session)
  return session
}

/** The devices of the first list of a discovery, which ends then. */
export async function find(details: object = {}, options: OpenOptions = {}): Promise<Device[]> {
  const session = open(details, options)
  await endRound()
  const devices = await next(session)
  await close(session)
  return devices
}

/** Ends a discovery, whose rounds {@link endRound} then no longer waits for. */
export async function close(session: InProcessDiscovery): Promise<void> {
  sessions = sessions.filter((other) => other !== session)
  await session.close(Number.POSITIVE_INFINITY)
}

/** Ends the present round of all discoveries, after all answers have arrived. */
export async function endRound(): Promise<void> {
  while (clock.waiting < sessions.length) await systemClock.sleep(1)
  await delivered()
  await clock.advance(WINDOW_MS)
}

/** Runs another round of a discovery that is alone, after all queries have ended. */
export async function nextRound(): Promise<void> {
  await delivered()
  while (clock.sleeping.some((ms) => ms > ROUND_MS - WINDOW_MS)) await systemClock.sleep(1)
  while (clock.waiting === 0) await clock.advance(clock.sleeping[0] ?? 0)
  await endRound()
}

/** The first list that satisfies, within twenty rounds. */
export async function nextRounds(
  session: InProcessDiscovery,
  satisfies: (devices: readonly Device[]) => boolean,
): Promise<Device[]> {
  for (let round = 0; round < 20; round++) {
    await nextRound()
    while (session.pending > 0) {
      const devices = await session.next()
      if (satisfies(devices)) return devices
    }
  }
  throw new TypeError('no list in twenty rounds')
}

/**
 * The next list that satisfies. Time passes only while the handler gathers changes.
 * @param satisfies by default, the devices have changed: reports also concern cameras of others
 */
export async function next(
  session: InProcessDiscovery,
  satisfies = (devices: readonly Device[]) => !isDeepStrictEqual(devices, last.get(session)),
): Promise<Device[]> {
  for (;;) {
    let isThere = false
    const list = session.next(Number.POSITIVE_INFINITY).finally(() => {
      isThere = true
    })
    list.catch(() => undefined)
    while (!isThere) {
      await systemClock.sleep(1)
      const [ms = Number.POSITIVE_INFINITY] = clock.sleeping
      if (ms <= GATHER_MS) await clock.advance(ms)
    }
    const devices = await list
    if (satisfies(devices)) {
      last.set(session, devices)
      return devices
    }
  }
}

/**
 * Resolves after all sockets of this process have got what was sent to them, and the answers: the
 * loopback interface keeps the order of datagrams, and timers that of their times.
 */
async function delivered(): Promise<void> {
  const socket = createSocket('udp4').bind(0, IP)
  await once(socket, 'listening')
  for (const _of of ['question', 'answer', 'further question', 'answer']) {
    socket.send('', socket.address().port, IP)
    await once(socket, 'message')
    await systemClock.sleep(2)
  }
  socket.close()
}

export const idsOf = (devices: readonly Device[]) => devices.map(({ id }) => id)
