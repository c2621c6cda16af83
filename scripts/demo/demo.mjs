// The devices of `npm start -- --demo`: simulated cameras and OPC UA servers, each in a process
// that ends with this one, and on the loopback interface only.
import { fork } from 'node:child_process'
import path from 'node:path'
import { writeProblem } from '../../runtime/src/errors/write-problem.mjs'
import { root } from '../workspaces.mjs'
import { KeptDevices } from './kept-devices.mjs'

const here = import.meta.dirname
const examples = path.join(root, 'examples')

/** How long the camera that comes and goes is there, in milliseconds. */
const THERE_MS = 50_000
/** How long a device that has ended is away, in milliseconds. */
const AWAY_MS = 10_000
/** As {@link AWAY_MS}, for a killed device: a handler misses it only after some rounds. */
const LOST_MS = 60_000
/** How often the demo tells what it waits for, in milliseconds. */
const BEAT_MS = 10_000
/** How much of the errors of a device is kept, in characters. */
const KEPT_ERRORS = 2000

/**
 * Starts the devices, and resolves when all are ready.
 * @param {string} stateDirectory of `akri run`
 * @returns the options of `akri run` that find the devices
 */
export async function startDevices(stateDirectory) {
  try {
    return await start(stateDirectory)
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error)
    const elsewhere = 'choose another directory with --state-dir'
    const problem = writeProblem(text, { directories: [stateDirectory], elsewhere })
    say(problem ?? text)
    process.exit(1)
  }
}

async function start(stateDirectory) {
  say('starting simulated cameras and OPC UA servers, on this machine only')
  // The same devices as in the demo before: the agent has their Instances.
  const directory = path.join(stateDirectory, 'demo')
  const kept = new KeptDevices(directory)
  const configuration = path.join(directory, 'opcua-servers.yaml')
  const camera = (title, ...login) =>
    new SimulatedDevice(kept, [title], ({ uuid, port }) => [
      path.join(here, 'camera.mjs'),
      title,
      uuid,
      port,
      ...login,
    ])
  const yard = camera('camera-yard', 'operator', 'demo')
  const devices = [
    camera('camera-gate'),
    yard,
    new SimulatedDevice(kept, ['Press', 'Oven'], (press, oven) => [
      path.join(here, 'opcua-servers.mjs'),
      'opcua-servers',
      configuration,
      press.port,
      oven.port,
    ]),
  ]
  const waiting = new Set(devices)
  const beat = setInterval(() => {
    say(`waiting for ${[...waiting].map(({ title }) => title).join(' and ')}`)
  }, BEAT_MS)
  const starting = devices.map(async (device) => {
    await device.start()
    waiting.delete(device)
    say(`${device.title} ready`)
  })
  await Promise.all(starting)
  clearInterval(beat)
  yard.comeAndGo()
  const files = [
    path.join(examples, 'demo/cameras.yaml'),
    path.join(examples, 'standalone/memory-devices.yaml'),
    configuration,
  ]
  const handlers = ['onvif', 'opcua', 'udev'].map((name) => `@akrijs/handler-${name}`)
  return { options: [...files.flatMap((file) => ['-f', file]), '--handler', handlers.join(',')] }
}

/** A program of devices. The program is started again some time after its end. */
class SimulatedDevice {
  #kept
  #names
  #command
  #child

  /**
   * @param kept the UUIDs and ports of all devices
   * @param names of its devices
   * @param command the program and its arguments, the first of which is the name of the process in
   *   the system, of 15 characters at most; for what is kept of each device
   */
  constructor(kept, names, command) {
    this.#kept = kept
    this.#names = names
    this.#command = command
  }

  get title() {
    return this.#names.join(' and ')
  }

  /** Resolves when the device is ready. @throws Error if the device ends before */
  start() {
    const before = this.#names.map((name) => this.#kept.get(name))
    const [file, title, ...args] = this.#command(...before)
    // In a session of its own: Ctrl-C is for the agent, whose end closes the channel, and that ends
    // the device.
    const child = fork(file, [title, ...args.map(String)], {
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
      child.once('message', (devices) => {
        try {
          for (const [index, name] of this.#names.entries())
            this.#keep(name, before[index].port, devices[name])
        } catch (error) {
          reject(error)
          return
        }
        child.once('exit', (code) => this.#startIn(code === 0 ? AWAY_MS : LOST_MS))
        resolve()
      })
      child.once('exit', () =>
        reject(new Error(`the simulated device ${title} did not start: ${errors.trim()}`)),
      )
    })
  }

  #keep(name, portBefore, device) {
    if (portBefore !== 0 && portBefore !== device.port)
      say(`port ${portBefore} is in use: ${name} is a new device at port ${device.port}`)
    this.#kept.set(name, device)
  }

  #startIn(ms) {
    setTimeout(() => this.start().catch(() => this.#startIn(LOST_MS)), ms).unref()
  }

  /** From now on, the device says goodbye now and then, and comes back. */
  comeAndGo() {
    setInterval(() => this.#child.kill('SIGTERM'), THERE_MS + AWAY_MS).unref()
  }
}

function say(text) {
  process.stderr.write(`akri: ${text}\n`)
}
