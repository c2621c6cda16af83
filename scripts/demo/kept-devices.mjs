// What the simulated devices keep from one demo to the next: in the state directory of the agent.
import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

/** UUIDs and ports, by the name of the device. */
export class KeptDevices {
  #file
  #devices

  /** @param {string} directory is made; a file of another form starts with new devices */
  constructor(directory) {
    makeDirectory(directory)
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

/** Level by level: with `recursive`, Node tries for ever below /proc. */
function makeDirectory(directory) {
  if (existsSync(directory)) return
  makeDirectory(path.dirname(directory))
  mkdirSync(directory, { mode: 0o700 })
}

function read(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) ?? {}
  } catch {
    return {}
  }
}
