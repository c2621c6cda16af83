import { Worker } from 'node:worker_threads'
import { hasForeignHandler, notedHandlers, onHandlers } from '../errors/handler-code.js'
import type { LoopWatchData } from './loop-watch-data.js'

/** A loop that is blocked for so long is reported, in milliseconds. */
const LIMIT_MS = 5000
const BEAT_MS = 1000

/**
 * Reports a handler that blocks the event loop of this process, also if it blocks for ever. Starts
 * a thread as soon as there is a handler that is not built in.
 * @param thread the program of the thread
 */
export function watchLoop(thread: URL, options: Omit<LoopWatchData, 'beats' | 'limitMs'>): void {
  // A breakpoint of a person blocks the loop, too.
  if ([...process.execArgv, process.env.NODE_OPTIONS ?? ''].join(' ').includes('--inspect')) return
  let worker: Worker | undefined
  onHandlers(() => {
    // A thread takes some megabytes.
    if (!hasForeignHandler()) return
    worker ??= start(thread, options)
    worker.postMessage(notedHandlers())
  })
}

function start(thread: URL, options: Omit<LoopWatchData, 'beats' | 'limitMs'>): Worker {
  const beats = new Int32Array(new SharedArrayBuffer(4))
  const data: LoopWatchData = { ...options, beats, limitMs: LIMIT_MS }
  const resourceLimits = { maxYoungGenerationSizeMb: 1, maxOldGenerationSizeMb: 16, stackSizeMb: 1 }
  const worker = new Worker(thread, { workerData: data, execArgv: [], env: {}, resourceLimits })
  worker.unref()
  // Without the thread all works but the report.
  worker.on('error', () => clearInterval(beat))
  const beat = setInterval(() => Atomics.add(beats, 0, 1), BEAT_MS).unref()
  return worker
}
