import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { followBus } from './usb-library.js'

let directory: string
let stop: AbortController

beforeEach(async () => {
  directory = await temporaryDirectory()
  stop = new AbortController()
})

afterEach(() => {
  stop.abort()
})

/** Follows a program in place of that of the library. */
function follow(program: string) {
  const file = path.join(directory, 'program.mjs')
  writeFileSync(file, program)
  return followBus(stop.signal, file)
}

/** A list whose only device is the id of its process. */
const TELL = 'process.send({ devices: [process.pid], hasBus: true })'
const isRunning = (pid: unknown) => {
  try {
    return process.kill(Number(pid), 0)
  } catch {
    return false
  }
}

describe('the process of the USB library', () => {
  it('tells what is plugged in until it is not needed, and ends then', async () => {
    const lists = follow(`${TELL}; setInterval(() => {}, 1000)`)
    const { value } = await lists.next()
    const [pid] = value?.devices ?? []
    expect(isRunning(pid)).toBe(true)
    const next = lists.next()
    stop.abort()
    expect(await next).toEqual({ value: undefined, done: true })
    await eventually(() => expect(isRunning(pid)).toBe(false))
  })

  it('ends with the loop that reads its lists', async () => {
    let pid: unknown
    for await (const { devices } of follow(`${TELL}; setInterval(() => {}, 1000)`)) {
      pid = devices[0]
      break
    }
    await eventually(() => expect(isRunning(pid)).toBe(false))
  })

  it.each([
    ['process.exit(3)', 'the USB library ended its process: exit code 3'],
    ['process.kill(process.pid, "SIGSEGV")', 'the USB library ended its process: SIGSEGV'],
    [
      'process.send({ problem: "no bus" }, () => process.exit(1))',
      'the USB library failed: no bus',
    ],
  ])('ends with a sentence, and with its last list, after %s', async (end, sentence) => {
    const lists = follow(`${TELL}; ${end}`)
    await expect(
      (async () => {
        for await (const list of lists) expect(list).toMatchObject({ hasBus: true })
      })(),
    ).rejects.toMatchObject({ code: 'AKRI_ERR_USB_LIBRARY', message: sentence })
  })
})
