import { monitorEventLoopDelay } from 'node:perf_hooks'
import { memoryOf } from '../memory.mjs'
import type { ProcessLoad } from './protocol.js'

const RESOLUTION_MS = 5

/** What this process takes of the machine. */
export class LoadMeter {
  readonly #delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
  #lastCpu = cpuSeconds()
  #longestBusy = 0

  constructor() {
    this.#delay.enable()
    setInterval(() => this.#tick(), RESOLUTION_MS).unref()
  }

  load(): ProcessLoad {
    const blockedMs = Math.max(this.#delay.max / 1e6 - RESOLUTION_MS, 0)
    const busyMs = this.#longestBusy * 1000
    this.#delay.reset()
    this.#longestBusy = 0
    return {
      cpuSeconds: cpuSeconds(),
      residentBytes: process.memoryUsage.rss(),
      dirtyMegabytes: memoryOf(process.pid).dirty,
      blockedMs,
      busyMs,
    }
  }

  #tick(): void {
    const now = cpuSeconds()
    this.#longestBusy = Math.max(this.#longestBusy, now - this.#lastCpu)
    this.#lastCpu = now
  }
}

function cpuSeconds(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e6
}
