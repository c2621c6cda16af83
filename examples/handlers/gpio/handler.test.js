import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { it } from 'node:test'
import { discover } from '@akrijs/sdk/testing'
import handler from './handler.js'

async function chips(t, labels) {
  const sysfs = await mkdtemp(path.join(os.tmpdir(), 'gpio-'))
  t.after(() => rm(sysfs, { recursive: true }))
  for (const [name, label] of Object.entries(labels)) {
    await mkdir(path.join(sysfs, name))
    if (label) await writeFile(path.join(sysfs, name, 'label'), `${label}\n`)
  }
  return sysfs
}

it('finds chips with their device nodes', async (t) => {
  const sysfs = await chips(t, { gpiochip0: 'pinctrl', gpiochip1: '', gpio: 'x' })
  const session = discover(handler, { sysfs })
  t.after(() => session.close())
  const found = await session.next()
  assert.deepEqual(
    found.map(({ id, properties }) => [id, properties]),
    [
      ['gpiochip0', { GPIO_DEVICE: '/dev/gpiochip0', GPIO_LABEL: 'pinctrl' }],
      ['gpiochip1', { GPIO_DEVICE: '/dev/gpiochip1' }],
    ],
  )
  assert.deepEqual(found[0].deviceSpecs, [
    { hostPath: '/dev/gpiochip0', containerPath: '/dev/gpiochip0', permissions: 'rw' },
  ])
})

it('leaves out chips with other labels', async (t) => {
  const session = discover(handler, { sysfs: await chips(t, { gpiochip0: 'a' }), labels: ['b'] })
  t.after(() => session.close())
  assert.deepEqual(await session.next(), [])
  assert.deepEqual(session.leftOut, [{ id: 'gpiochip0', reason: 'has another label', detail: 'a' }])
})
