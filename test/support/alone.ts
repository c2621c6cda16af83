import { once } from 'node:events'
import net from 'node:net'
import { afterAll, beforeAll } from 'vitest'

/** An abstract socket: the kernel lets go of it when its holder ends, however that ends. */
const TURN = '\0akri-tests-alone'
/** As long as all others together may take. */
const WAIT_MS = 15 * 60_000

/**
 * For a file of tests about what a machine has once: its multicast, its networks, its kernel's devices. It runs while no other
 * such file does, of this run or of another one on this machine.
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

/** Resolves when whoever has the turn gives it back, or ends. */
async function endOfTurn(): Promise<void> {
  const waiting = net.connect(TURN)
  // It has just been given back.
  waiting.on('error', () => {})
  await new Promise((resolve) => waiting.once('close', resolve))
}
