import { once } from 'node:events'
import net from 'node:net'
import { afterAll, beforeAll } from 'vitest'

/** An abstract socket: the kernel frees it when its owner ends, in whatever way. */
const TURN = '\0akri-tests-alone'
/** Longer than all other files together can take. */
const WAIT_MS = 15 * 60_000

/**
 * For a test file about something that a machine has once: its multicast, its networks, its
 * kernel's devices. The file runs while no other such file does, of this run or of another run on
 * this machine.
 */
export function alone(): void {
  let turn: net.Server
  beforeAll(async () => {
    turn = await takeTurn()
  }, WAIT_MS)
  afterAll(() => turn.close())
}

async function takeTurn(): Promise<net.Server> {
  for (;;) {
    const turn = net.createServer()
    try {
      turn.listen(TURN)
      await once(turn, 'listening')
      return turn
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
      await endOfTurn()
    }
  }
}

/** Resolves when the present owner releases the turn, or ends. */
async function endOfTurn(): Promise<void> {
  const waiting = net.connect(TURN)
  // The turn has just been released.
  waiting.on('error', () => {})
  await new Promise((resolve) => waiting.once('close', resolve))
}
