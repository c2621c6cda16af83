import assert from 'node:assert/strict'
import { it } from 'node:test'
import { discover } from '@akrijs/sdk/testing'
import handler from './handler.js'

it('finds a device node, with all that its containers get', async (t) => {
  const session = discover(handler, { paths: ['/dev/null'] })
  // Also after a failed assertion: an open session can keep the process running.
  t.after(() => session.close())
  assert.deepEqual(await session.next(), [
    {
      id: '/dev/null',
      properties: { MY_SENSOR_DEVICE: '/dev/null', MY_SENSOR_KIND: 'character' },
      deviceSpecs: [{ hostPath: '/dev/null', containerPath: '/dev/null', permissions: 'rw' }],
      mounts: [
        { hostPath: '/etc/hostname', containerPath: '/run/my-sensor/hostname', readOnly: true },
      ],
    },
  ])
})

it('reports what it leaves out', async (t) => {
  const session = discover(handler, { paths: ['/dev/none-such'] })
  t.after(() => session.close())
  assert.deepEqual(await session.next(), [])
  assert.deepEqual(session.leftOut, [{ id: '/dev/none-such', reason: 'is not a device node' }])
})

it('refuses details that do not fit', async (t) => {
  const session = discover(handler, 'paths: [/etc/passwd]')
  t.after(() => session.close())
  await assert.rejects(session.next(), /paths.*is not a path such as/s)
})
