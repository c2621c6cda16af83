import assert from 'node:assert/strict'
import { it } from 'node:test'
import { discover } from '@akrijs/sdk/testing'
import handler from './handler.js'

it('finds a device node, with all that its containers get', async () => {
  const session = discover(handler, { paths: ['/dev/null'] })
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
  await session.close()
})

it('reports what it leaves out', async () => {
  const session = discover(handler, { paths: ['/dev/none-such'] })
  assert.deepEqual(await session.next(), [])
  assert.deepEqual(session.leftOut, [{ id: '/dev/none-such', reason: 'is not a device node' }])
  await session.close()
})

it('refuses details that do not fit', async () => {
  const session = discover(handler, 'paths: [/etc/passwd]')
  await assert.rejects(session.next(), /paths.*is not a path such as/s)
})
