// What the simulated devices keep from one demo to the next: in the state directory of the agent.
import { randomUUID } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'

/**
 * The state directory of `akri run`, as cli/src/places.ts has it.
 * @param {readonly string[]} args of `akri run`
 * @returns {string}
 */
export function stateDirectory(args, environment = process.env) {
  const index = args.findLastIndex((arg) => arg === '--state-dir' || arg.startsWith('--state-dir='))
  const value = args[index]?.includes('=') ? args[index].replace(/^[^=]*=/, '') : args[index + 1]
  if (index >= 0 && value) return path.resolve(value)
  if (environment.AKRI_STATE_DIRECTORY) return path.resolve(environment.AKRI_STATE_DIRECTORY)
  if (process.getuid?.() === 0) return '/var/lib/akri-standalone'
  const { XDG_STATE_HOME: state = '' } = environment
  // The specification of XDG ignores relative paths.
  return path.join(path.isAbsolute(state) ? state : path.join(os.homedir(), '.local/state'), 'akri')
}

/** UUIDs and ports, by the name of the device. */
export class KeptDevices {
  #file
  #devices

  /** @param {string} directory is made; a file of another form starts with new devices */
  constructor(directory) {
    mkdirSync(directory, { recursive: true, mode: 0o700 })
    this.#file = path.join(directory, 'devices.json')
    this.#devices = new Map(Object.entries(read(this.#file)))
  }

  /**
   * @param {string} name
   * @returns {{ uuid: string, port: number }} port 0 for a free port
   */
  get(name) {
    const { uuid, port } = this.#devices.get(name) ?? {}
    return {
      uuid: /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/.test(uuid) ? uuid : randomUUID(),
      port: Number.isInteger(port) && port > 0 && port < 65_536 ? port : 0,
    }
  }

  /** @param {string} name @param {{ uuid?: string, port: number }} device */
  set(name, device) {
    this.#devices.set(name, device)
    writeFileSync(this.#file, `${JSON.stringify(Object.fromEntries(this.#devices), null, 2)}\n`)
  }
}

function read(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) ?? {}
  } catch {
    return {}
  }
}
