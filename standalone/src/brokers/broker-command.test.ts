import { describe, expect, it } from 'vitest'
import { brokerEnvironment, expand, planBroker } from './broker-command.js'

describe('the command of a broker', () => {
  it('expands $(NAME) for known names, keeps it for others, and turns $$ into $', () => {
    expect(expand('$(A) $(B) $$(A) $A', { A: 'x' })).toBe('x $(B) $(A) $A')
  })

  it('has the allocated variables, then those of the container, and a few of the agent', () => {
    const env = brokerEnvironment(
      { DEVICE: '/dev/null', MODE: 'r' },
      { MODE: 'w', BOTH: '$(DEVICE)-$(MODE)' },
      { PATH: '/bin', SECRET: 's' },
    )
    expect(env).toEqual({ PATH: '/bin', DEVICE: '/dev/null', MODE: 'w', BOTH: '/dev/null-w' })
  })

  it('asks for one slot of its Instance by default, and for the placeholder', () => {
    const container = { name: 'c', command: ['/bin/true'] }
    expect(planBroker({ brokerPodSpec: { containers: [container] } }, 'akri.sh/x')).toMatchObject({
      command: { resources: { 'akri.sh/x': 1 } },
    })
    const asking = {
      ...container,
      resources: { limits: { '{{PLACEHOLDER}}': '2', memory: '1Gi' } },
    }
    expect(planBroker({ brokerPodSpec: { containers: [asking] } }, 'akri.sh/x')).toMatchObject({
      command: { resources: { 'akri.sh/x': 2 } },
    })
  })

  it.each([
    [{}, /containers is empty/],
    [{ containers: [{ image: 'nginx' }] }, /an image alone needs a cluster/],
    [{ containers: [{ command: ['a'] }, { command: ['b'] }] }, /several containers/],
    [{ containers: [{ command: ['a'] }], initContainers: [{}] }, /has init containers/],
    [
      { containers: [{ command: ['a'], env: [{ name: 'X', valueFrom: {} }] }] },
      /valueFrom needs a cluster/,
    ],
  ])('gives the reason why %j runs nothing', (spec, reason) => {
    expect(planBroker({ brokerPodSpec: spec }, 'akri.sh/x')).toMatchObject({
      kind: 'none',
      reason: expect.stringMatching(reason),
    })
  })

  it.each([
    [{ command: 'sh -c x' }, 'command', /^"sh -c x" is no list; write a list of texts/],
    [{ command: ['sh', 'a\0b'] }, 'command[1]', /has a NUL in it/],
    [{ command: [''] }, 'command[0]', /it is empty; write a program/],
    [{ command: ['sh', 8080] }, 'command[1]', /^8080 is no text; write it in quotes/],
    [{ command: ['sh'], args: '-c x' }, 'args', /^"-c x" is no list; write a list of texts/],
    [{ command: ['sh'], args: ['-c', null] }, 'args[1]', /^null is no text/],
    [{ command: ['sh'], workingDir: 7 }, 'workingDir', /^7 is no path/],
    [{ command: ['sh'], workingDir: '/a\0' }, 'workingDir', /is no path/],
  ])('refuses %j, with the path and the problem', (container, field, message) => {
    const at = `containers[0].${field}`
    expect(planBroker({ brokerPodSpec: { containers: [container] } }, 'akri.sh/x')).toEqual({
      kind: 'wrong',
      problem: {
        path: `spec.brokerSpec.brokerPodSpec.${at}`,
        message: expect.stringMatching(message),
      },
    })
    const template = { spec: { containers: [container] } }
    expect(planBroker({ brokerJobSpec: { template } }, 'akri.sh/x')).toMatchObject({
      problem: { path: `spec.brokerSpec.brokerJobSpec.template.spec.${at}` },
    })
  })

  it('treats null and empty values as absent', () => {
    const env = [{ name: 'X', value: null, valueFrom: null }]
    for (const [more, expected] of [
      [{ args: null, workingDir: '' }, {}],
      [{ env: null, workingDir: null }, {}],
      [{ env }, { X: '' }],
    ] as const) {
      const containers = [{ command: ['sh'], ...more }]
      expect(planBroker({ brokerPodSpec: { containers } }, 'akri.sh/x')).toMatchObject({
        command: { file: 'sh', args: [], env: expected, workingDirectory: undefined },
      })
    }
  })

  it('R52 takes retries and completions from the Job, with the defaults of Kubernetes', () => {
    const template = { spec: { containers: [{ command: ['/bin/true'] }] } }
    const goalOf = (job: object) => planBroker({ brokerJobSpec: { template, ...job } }, 'akri.sh/x')
    expect(goalOf({})).toMatchObject({
      goal: { kind: 'completions', completions: 1, backoffLimit: 6 },
    })
    expect(goalOf({ completions: 3, backoffLimit: 0 })).toMatchObject({
      goal: { completions: 3, backoffLimit: 0 },
    })
    expect(goalOf({ suspend: false })).toMatchObject({ kind: 'run' })
    expect(goalOf({ suspend: true })).toEqual({
      kind: 'none',
      reason: 'brokerJobSpec.suspend is true',
    })
    expect(planBroker({ brokerJobSpec: {} }, 'akri.sh/x')).toEqual({
      kind: 'none',
      reason: 'brokerJobSpec.template.spec.containers is empty',
    })
  })
})
