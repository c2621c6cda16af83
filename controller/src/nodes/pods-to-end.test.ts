import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { TestControl } from '../testing/control.js'

const SLOT = 'cam-8120fe-0'

let controller: TestControl

beforeEach(async () => {
  controller = new TestControl()
  await controller.start()
})
afterEach(() => controller.stop())

const pathOf = (name: string) => `/api/v1/namespaces/lab/pods/${name}`

function putPod(name: string, { node = 'worker', resource = 'akri.sh/cam', phase = 'Running' }) {
  controller.api.put(pathOf(name), {
    metadata: { uid: `uid of ${name}` },
    spec: { nodeName: node, containers: [{ resources: { limits: { [resource]: '1' } } }] },
    status: { phase },
  })
}

/** @param pods with their uids */
function report(pods: Readonly<Record<string, string>>): void {
  const entries = Object.entries(pods).map(([name, uid]) => [`lab/${name}`, { uid, slot: SLOT }])
  controller.api.put('/apis/akri.sh/v0/nodereports/worker', {
    podsToEnd: Object.fromEntries(entries),
  })
}

const deletions = () =>
  controller.api.requests.flatMap(({ method, path, body }) =>
    method === 'DELETE' ? [{ path, body }] : [],
  )

describe('the Pods that a node wants to end', () => {
  it('are deleted as fast as the kubelet evicts, and an Event says why', async () => {
    putPod('user', {})
    report({ user: 'uid of user' })
    await eventually(() => expect(controller.events).toHaveLength(1))
    expect(controller.api.objects.has(pathOf('user'))).toBe(false)
    expect(deletions()).toMatchObject([
      {
        path: pathOf('user'),
        body: { gracePeriodSeconds: 1, preconditions: { uid: 'uid of user' } },
      },
    ])
    expect(controller.events).toMatchObject([
      {
        regarding: { kind: 'Pod', key: 'lab/user' },
        type: 'Warning',
        reason: 'DiskBoundExceeded',
        message: expect.stringContaining(SLOT),
      },
    ])
  })

  it('stay if they are on another node, use no device, have ended, or are others', async () => {
    putPod('elsewhere', { node: 'other' })
    putPod('plain', { resource: 'cpu' })
    putPod('done', { phase: 'Succeeded' })
    putPod('next', {})
    putPod('user', {})
    report({
      ...Object.fromEntries(['elsewhere', 'plain', 'done'].map((name) => [name, `uid of ${name}`])),
      next: 'uid of the one before',
      user: 'uid of user',
    })
    await eventually(() => expect(controller.api.objects.has(pathOf('user'))).toBe(false))
    expect(deletions().map(({ path }) => path)).toEqual([pathOf('user')])
  })

  it('are deleted also if the API server keeps another Pod', async () => {
    for (const name of ['a', 'b']) putPod(name, {})
    controller.api.refusal = ({ method, path }) =>
      method === 'DELETE' && path === pathOf('a') ? { status: 403, message: 'kept' } : undefined
    report({ a: 'uid of a', b: 'uid of b' })
    await eventually(() => expect(controller.events).toHaveLength(1))
    expect([
      controller.api.objects.has(pathOf('a')),
      controller.api.objects.has(pathOf('b')),
    ]).toEqual([true, false])
    expect(controller.events[0]?.regarding.key).toBe('lab/b')
  })
})
