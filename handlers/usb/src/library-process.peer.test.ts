import { cpSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { describeUnless } from '../../../test/support/unless.js'
import { followBus, type UsbBus } from './usb-library.js'

const program = path.join(import.meta.dirname, '../dist/library-process.js')
const stop = new AbortController()

afterEach(() => stop.abort())

describeUnless(existsSync(program) ? [] : ['npm run build'], 'the npm package usb', () => {
  it('lists the buses of this machine, or tells that there is none', async () => {
    const { value } = await followBus(stop.signal, program).next()
    const { devices, hasBus }: UsbBus = value ?? expect.fail('the process has ended')
    expect(hasBus).toBe(process.platform !== 'linux' || existsSync('/sys/bus/usb/devices'))
    for (const { USB_VENDOR_ID: vendor, USB_PORT_PATH: port } of devices) {
      expect(vendor).toMatch(/^[\da-f]{4}$/)
      expect(port).toMatch(/-\d/)
    }
  })

  it('says in a sentence that it has no binary for a system', async () => {
    const directory = mkdtempSync(path.join(os.tmpdir(), 'akri-usb-process-'))
    try {
      // No packages are found from there.
      cpSync(path.dirname(program), directory, { recursive: true })
      const lists = followBus(
        new AbortController().signal,
        path.join(directory, path.basename(program)),
      )
      await expect(lists.next()).rejects.toThrow(
        `the USB library failed: no binary for ${process.platform}-${process.arch} can be loaded: `,
      )
    } finally {
      rmSync(directory, { recursive: true })
    }
  })
})
