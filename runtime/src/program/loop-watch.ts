// Runs in a thread of its own: it goes on while the code of a handler blocks the main thread.
import { writeSync } from 'node:fs'
import { type Debugger, type InspectorNotification, Session } from 'node:inspector'
import { parentPort, workerData } from 'node:worker_threads'
import { handlerPlaceIn } from '../errors/handler-code.js'
import type { LoopWatchData } from './loop-watch-data.js'

const { beats, limitMs, program, isText, remedy } = workerData as LoopWatchData
let handlers: ReadonlyMap<string, string> = new Map()
parentPort?.on('message', (noted: ReadonlyMap<string, string>) => {
  handlers = noted
})

/** Turns of this thread. A process that was stopped as a whole has missed one turn. */
const TURN_MS = 500
/** A synchronous call, such as `execSync`, has no stack until it returns. */
const STACK_MS = 2000
let last = -1
let turns = 0
let isReported = false

setInterval(() => {
  const beat = Atomics.load(beats, 0)
  if (beat !== last) {
    if (isReported) write('info', { blockedMs: turns * TURN_MS }, 'event loop runs again')
    last = beat
    turns = 0
    isReported = false
    return
  }
  turns++
  if (isReported || turns * TURN_MS < limitMs) return
  isReported = true
  report()
}, TURN_MS)

function report(): void {
  const session = new Session()
  const urls = new Map<string, string>()
  const blockedMs = turns * TURN_MS
  const names = [...new Set(handlers.values())]
  const timer = setTimeout(
    () => write('error', { blockedMs, handlers: names, remedy }, 'event loop blocked by a call'),
    STACK_MS,
  )
  session.connectToMainThread()
  session.on('Debugger.scriptParsed', ({ params }) => urls.set(params.scriptId, params.url))
  session.once(
    'Debugger.paused',
    ({ params }: InspectorNotification<Debugger.PausedEventDataType>) => {
      session.post('Debugger.resume')
      session.post('Debugger.disable')
      session.disconnect()
      clearTimeout(timer)
      const lines = params.callFrames.map(({ location }) => {
        const url = urls.get(location.scriptId) ?? ''
        return `at ${url}:${location.lineNumber + 1}:1`
      })
      const at = handlerPlaceIn(lines.join('\n'), handlers)
      if (at === undefined) {
        const [place] = lines.filter((line) => !line.startsWith('at node:'))
        write('warn', { blockedMs, handlers: names, place }, 'event loop blocked')
      } else write('error', { ...at, blockedMs, remedy }, 'event loop blocked by a handler')
    },
  )
  session.post('Debugger.enable')
  session.post('Debugger.pause')
}

/** A line of the log: the log itself belongs to the main thread. */
function write(level: string, fields: Readonly<Record<string, unknown>>, msg: string): void {
  const { pid } = process
  const line = isText
    ? [
        new Date().toTimeString().slice(0, 8),
        level.padEnd(5),
        msg,
        ...Object.entries(fields)
          .filter(([, value]) => value !== undefined)
          .map(([name, value]) => `${name}=${JSON.stringify(value)}`),
      ].join(' ')
    : JSON.stringify({ level, time: Date.now(), pid, name: program, ...fields, msg })
  try {
    writeSync(2, `${line}\n`)
  } catch {
    // The reader of the log is slow, or gone.
  }
}
