import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { DeviceService } from '@akrijs/handler-onvif/testing'
import { decode } from 'jpeg-js'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { stateDirectory } from '../cli/src/state-directory.mjs'
import { usablePort } from './demo/device.mjs'
import { KeptDevices } from './demo/kept-devices.mjs'
import { picture } from './demo/picture.mjs'

let directory

beforeEach(() => {
  directory = mkdtempSync(path.join(os.tmpdir(), 'akri-demo-'))
})
afterEach(() => rmSync(directory, { recursive: true, force: true }))

describe('the devices of the demo', () => {
  it('have their UUIDs and ports again in the next demo', () => {
    const first = new KeptDevices(path.join(directory, 'demo'))
    const { uuid, port } = first.get('camera-gate')
    expect(port).toBe(0)
    first.set('camera-gate', { uuid, port: 40_123 })
    first.set('Press', { uuid: first.get('Press').uuid, port: 40_124 })
    const second = new KeptDevices(path.join(directory, 'demo'))
    expect(second.get('camera-gate')).toEqual({ uuid, port: 40_123 })
    expect(second.get('Press').port).toBe(40_124)
    expect(second.get('camera-yard').uuid).not.toBe(uuid)
  })

  it.each(['', 'null', '{"camera-gate":{"uuid":"x y","port":"80"}}', '{"camera-gate":null}'])(
    'are new where the file has no devices: %j',
    (text) => {
      writeFileSync(path.join(directory, 'devices.json'), text)
      const { uuid, port } = new KeptDevices(directory).get('camera-gate')
      expect([uuid, port]).toEqual([expect.stringMatching(/^[\da-f-]{36}$/), 0])
    },
  )

  it('take a free port if another program has their port', async () => {
    const server = net.createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address()
    expect(await usablePort(port)).toBe(0)
    await new Promise((resolve) => server.close(resolve))
    expect(await usablePort(port)).toBe(port)
  })

  it.each([
    [['--state-dir', '/a', '--plain'], { AKRI_STATE_DIRECTORY: '/b' }, '/a'],
    [['--state-dir=/a'], {}, '/a'],
    [['--plain'], { AKRI_STATE_DIRECTORY: '/b' }, '/b'],
  ])('are kept in the state directory of the agent: %j %j', (args, environment, expected) => {
    expect(stateDirectory(args, environment)).toBe(expected)
  })
})

/** Whether the middle of a square of the picture is as bright as a letter. */
function isBright({ data, width }, column, row) {
  return data[((row * 8 + 4) * width + column * 8 + 4) * 4] > 200
}

describe('the picture of a camera of the demo', () => {
  const time = new Date('2026-11-23T12:34:56Z')

  it('shows its title and the time', () => {
    const image = decode(picture('camera-gate', time))
    expect([image.width, image.height]).toEqual([640, 360])
    // The letters of the time, as a person sees them.
    const rows = Array.from({ length: 7 }, (_, row) =>
      Array.from({ length: 47 }, (_, column) =>
        isBright(image, 16 + column, 26 + row) ? '#' : ' ',
      ).join(''),
    )
    expect(rows).toEqual([
      '  #    ###        #####    #        #####   ## ',
      ' ##   #   #  ##      #    ##   ##   #      #   ',
      '  #       #  ##     #    # #   ##   ####  #    ',
      '  #      #           #  #  #            # #### ',
      '  #     #    ##       # #####  ##       # #   #',
      '  #    #     ##   #   #    #   ##   #   # #   #',
      ' ###  #####        ###     #         ###   ### ',
    ])
  })

  it('changes with each second', () => {
    const later = new Date(time.getTime() + 1000)
    expect(picture('camera-gate', later).equals(picture('camera-gate', time))).toBe(false)
  })

  it('is what a camera sends', async () => {
    const jpeg = picture('camera-gate', time)
    const camera = await DeviceService.start({ picture: () => jpeg })
    try {
      const reply = await fetch(new URL('/snapshot/main', camera.url))
      expect(reply.headers.get('content-type')).toBe('image/jpeg')
      expect(Buffer.from(await reply.arrayBuffer()).equals(jpeg)).toBe(true)
    } finally {
      await camera.close()
    }
  })
})
