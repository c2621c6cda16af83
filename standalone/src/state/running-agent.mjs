// Plain JavaScript, which imports nothing of ours: scripts/start.mjs uses this file before anything
// is built.
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import net from 'node:net'

/** The socket in a state directory that is its lock: an agent listens on it. */
export const LOCK = 'lock.sock'

/** An agent that is stopped gives no answer. In milliseconds. */
const ANSWER_MS = 5000

/** Answers a connection to the lock with what {@link runningAgent} reads. */
export function answerForLock(socket, since) {
  // A client that only asks whether the lock is taken does not wait for the answer.
  socket.on('error', () => {})
  socket.write(JSON.stringify({ pid: process.pid, since }))
  socket.destroySoon()
}

/**
 * The agent that uses a state directory.
 * @param {string} stateDirectory
 * @returns {Promise<string | undefined>} its process and what to do, for a person; undefined if no
 *   agent uses the directory, or if this user may not ask
 */
export async function runningAgent(stateDirectory) {
  const directory = await open(stateDirectory, constants.O_DIRECTORY).catch(() => undefined)
  if (directory === undefined) return undefined
  try {
    // The path of a socket is short, that of the directory may be long.
    const answer = await answerOf(`/proc/self/fd/${directory.fd}/${LOCK}`)
    if (answer === undefined) return undefined
    return `${processOf(answer)}; stop it, or choose another directory with --state-dir`
  } finally {
    await directory.close()
  }
}

function answerOf(file) {
  return new Promise((resolve) => {
    let text = ''
    const socket = net.connect(file)
    const timer = setTimeout(() => socket.destroy(), ANSWER_MS)
    socket.setEncoding('utf8').on('data', (more) => {
      text += more
    })
    let isServed = false
    socket.once('connect', () => {
      isServed = true
    })
    socket.on('error', () => {})
    socket.once('close', () => {
      clearTimeout(timer)
      resolve(isServed ? text : undefined)
    })
  })
}

function processOf(answer) {
  try {
    const { pid, since } = JSON.parse(answer)
    // In Swedish, a time of this machine has the form 2026-11-27 04:18:05.
    return `pid ${Number(pid)} runs since ${new Date(since).toLocaleString('sv-SE')}`
  } catch {
    return 'it gives no answer'
  }
}
