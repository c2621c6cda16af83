// The devices of `npm start -- --demo`: simulated cameras and OPC UA servers, each in a process
// that ends with this one, and on the loopback interface only.
import { fork } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdtempSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { root } from '../workspaces.mjs'

const here = import.meta.dirname
const examples = path.join(root, 'examples')

/** How long the camera that comes and goes is there, in milliseconds. */
const THERE_MS = 50_000
/** How long a device that has ended is away, in milliseconds. */
const AWAY_MS = 10_000
/** As {@link AWAY_MS}, for a killed device: a handler misses it only after some rounds. */
const LOST_MS = 60_000
/** How much of the errors of a device is kept, in characters. */
const KEPT_ERRORS = 2000

/**
 * Starts the devices, and resolves when all are ready.
 * @returns the options of `akri run` that find the devices
 */
export async function startDevices() {
  process.stderr.write(
    'akri: starting two simulated cameras and two OPC UA servers, on this machine only ' +
      '(some seconds)\n',
  )
  const directory = mkdtempSync(path.join(os.tmpdir(), 'akri-demo-'))
  const configuration = path.join(directory, 'opcua-servers.yaml')
  const yard = new SimulatedDevice('camera-yard', [
    path.join(here, 'camera.mjs'),
    randomUUID(),
    'operator',
    'demo',
  ])
  const devices = [
    new SimulatedDevice('camera-gate', [path.join(here, 'camera.mjs'), randomUUID()]),
    yard,
    new SimulatedDevice('opcua-servers', [path.join(here, 'opcua-servers.mjs'), configuration]),
  ]
  try {
    await Promise.all(devices.map((device) => device.start()))
  } catch (error) {
    process.stderr.write(`akri: ${error instanceof Error ? error.message : error}\n`)
    process.exit(1)
  }
  yard.comeAndGo()
  const files = [
    path.join(examples, 'demo/cameras.yaml'),
    path.join(examples, 'standalone/memory-devices.yaml'),
    configuration,
  ]
  const handlers = ['onvif', 'opcua', 'udev'].map((name) => `@akrijs/handler-${name}`)
  return { options: [...files.flatMap((file) => ['-f', file]), '--handler', handlers.join(',')] }
}

/** A program that is a device. The program is started again some time after its end. */
class SimulatedDevice {
  #title
  #program
  #child

  /** @param title the name of the process in the system, of 15 characters at most */
  constructor(title, program) {
    this.#title = title
    this.#program = program
  }

  /** Resolves when the device is ready. @throws Error if the device ends before */
  start() {
    const [file, ...args] = this.#program
    // In a session of its own: Ctrl-C is for the agent, whose end closes the channel, and that ends
    // the device.
    const child = fork(file, [this.#title, ...args], {
      detached: true,
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    this.#child = child
    let errors = ''
    child.stderr.setEncoding('utf8').on('data', (text) => {
      errors = (errors + text).slice(-KEPT_ERRORS)
    })
    return new Promise((resolve, reject) => {
      child.once('error', reject)
      child.once('message', () => {
        child.once('exit', (code) => this.#startIn(code === 0 ? AWAY_MS : LOST_MS))
        resolve()
      })
      child.once('exit', () =>
        reject(new Error(`the simulated device ${this.#title} did not start: ${errors.trim()}`)),
      )
    })
  }

  #startIn(ms) {
    setTimeout(() => this.start().catch(() => this.#startIn(LOST_MS)), ms).unref()
  }

  /** From now on, the device says goodbye now and then, and comes back. */
  comeAndGo() {
    setInterval(() => this.#child.kill('SIGTERM'), THERE_MS + AWAY_MS).unref()
  }
}
