import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { BUNDLED_TYPES, type Problem } from '@akrijs/api'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { defineDiscoveryHandler } from '@akrijs/sdk/handler'
import fc from 'fast-check'
import { beforeAll, describe, expect, it } from 'vitest'
import * as z from 'zod'
import { ManifestReader } from '../../../standalone/src/manifests/manifest-files.js'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { Reviewer } from '../../../webhook/src/review/reviewer.js'
import { fileFindings } from './file-findings.js'

// The webhook, `akri validate` and `akri run` read the same Configurations.

const lab = defineDiscoveryHandler({
  name: 'lab',
  shared: false,
  details: z.strictObject({ ports: z.array(z.int()), old: z.boolean().optional() }),
  warnings: ({ old }) => (old ? [{ path: 'old', message: 'it has no effect' }] : []),
  async *discover() {},
})
let directory: string

beforeAll(async () => {
  directory = await temporaryDirectory()
})

const lines = (problems: readonly Problem[]) =>
  problems.map(({ path, message }) => `${path}: ${message}`).sort()

/** What a reader refuses, and what it only warns of. */
interface Answer {
  readonly refused: readonly string[]
  readonly warned: readonly string[]
}

async function webhook(object: unknown, typesAreBundled: boolean): Promise<Answer> {
  const reviewer = new Reviewer({
    types: () => BUNDLED_TYPES,
    typesAreBundled: () => typesAreBundled,
    handlers: new Map([['lab', lab]]),
    names: { problems: async () => [] },
    failurePolicy: 'Fail',
    clock: new ManualClock(),
    log: silentLogger,
  })
  const verdict = await reviewer.review({
    apiVersion: 'admission.k8s.io/v1',
    uid: '1',
    operation: 'CREATE',
    namespace: 'default',
    object,
    oldObject: undefined,
  })
  if (verdict.outcome === 'undecided') return expect.fail(verdict.reasons.join())
  return {
    refused: verdict.outcome === 'denied' ? lines(verdict.problems) : [],
    warned: [...verdict.warnings].sort(),
  }
}

async function validate(text: string): Promise<Answer> {
  const load = async (name: string) => (name === 'lab' ? lab : undefined)
  const { findings } = await fileFindings('f', text, { load, names: ['lab'] })
  return {
    refused: lines(findings.filter(({ level }) => level === 'problem')),
    warned: lines(findings.filter(({ level }) => level === 'warning')),
  }
}

async function run(text: string): Promise<Answer> {
  const file = path.join(directory, 'configuration.json')
  await writeFile(file, text)
  const { problems, warnings } = await new ManifestReader([file]).read()
  return { refused: lines(problems), warned: lines(warnings) }
}

const POD = 'spec.brokerSpec.brokerPodSpec'

const configuration = (spec: object) => ({
  apiVersion: 'akri.sh/v0',
  kind: 'Configuration',
  metadata: { name: 'lab' },
  spec: { discoveryHandler: { name: 'lab', discoveryDetails: 'ports: []' }, ...spec },
})
const pod = (...containers: object[]) => ({ brokerSpec: { brokerPodSpec: { containers } } })

describe('the webhook, akri validate and akri run', () => {
  // Each refuses (R), warns (w) or accepts (-): webhook, webhook before it has the types of the
  // cluster, akri validate, akri run.
  it.each<[string, object, string, string]>([
    ['a broker', pod({ name: 'b', image: 'i' }), '', '- - - -'],
    ['a wrong capacity', { capacity: 0 }, 'spec.capacity', 'R R R R'],
    ['no image', pod({ name: 'b' }), `${POD}.containers[0].image`, 'R R R w'],
    ['no name', pod({ image: 'i' }), `${POD}.containers[0].name`, 'R R R w'],
    ['no container', pod(), `${POD}.containers`, 'R R R w'],
    [
      'a command without an image',
      pod({ name: 'b', command: ['sh'] }),
      `${POD}.containers[0].image`,
      'w w w -',
    ],
    [
      'a misspelt field',
      pod({ name: 'b', image: 'i', comand: ['sh'] }),
      `${POD}.containers[0].comand`,
      'R w R w',
    ],
    [
      'a value of a wrong type',
      pod({ name: 'b', image: 'i', args: 'x' }),
      `${POD}.containers[0].args`,
      'R R R w',
    ],
    [
      'wrong details',
      { discoveryHandler: { name: 'lab', discoveryDetails: 'ports: [x]' } },
      'spec.discoveryHandler.discoveryDetails.ports[0]',
      // The agent of `akri run` checks details when it asks the handler.
      'R R R -',
    ],
    [
      'details with an effect that surprises',
      { discoveryHandler: { name: 'lab', discoveryDetails: 'ports: []\nold: true' } },
      'spec.discoveryHandler.discoveryDetails.old',
      '- - w -',
    ],
  ])('answer to %s as the docs say', async (_what, spec, where, expected) => {
    const object = configuration(spec)
    const text = JSON.stringify(object)
    const answers = [
      await webhook(object, false),
      await webhook(object, true),
      await validate(text),
      await run(text),
    ]
    const found = new Set(answers.flatMap(({ refused, warned }) => [...refused, ...warned]))
    expect(found.size).toBe(where === '' ? 0 : 1)
    for (const line of found) expect(line.startsWith(`${where}: `)).toBe(true)
    const letter = ({ refused, warned }: Answer) =>
      refused.length > 0 ? 'R' : warned.length > 0 ? 'w' : '-'
    expect(answers.map(letter).join(' ')).toBe(expected)
  })

  it('find the same in every Configuration', async () => {
    const text = fc.constantFrom<unknown>(undefined, null, '', 'x', 1)
    const list = fc.constantFrom<unknown>(undefined, [], ['sh'], 'sh', [1])
    const container = fc.record(
      { name: text, image: text, command: list, args: list, comand: list, env: list },
      { requiredKeys: [] },
    )
    const containers = fc.oneof(
      { weight: 5, arbitrary: fc.array(container, { maxLength: 3 }) },
      { weight: 1, arbitrary: fc.constantFrom<unknown>(null, 'x', [null], [1]) },
    )
    const podSpec = fc.record(
      { containers, initContainers: containers, hostNetwork: text, xNew: text },
      { requiredKeys: [] },
    )
    const broker = fc.oneof(
      fc.record({ brokerPodSpec: podSpec }),
      fc.record({ brokerJobSpec: fc.record({ template: fc.record({ spec: podSpec }) }) }),
      fc.record({ brokerDeploymentSpec: fc.record({ template: fc.record({ spec: podSpec }) }) }),
    )
    const spec = fc.record(
      {
        brokerSpec: broker,
        capacity: fc.constantFrom<unknown>(1, 0, 'x'),
        capacty: fc.constant(1),
        instanceServiceSpec: fc.record({ ports: list }),
      },
      { requiredKeys: ['brokerSpec'] },
    )
    await fc.assert(
      fc.asyncProperty(spec, async (spec) => {
        const text = JSON.stringify(configuration(spec))
        const object: unknown = JSON.parse(text)
        const file = await validate(text)
        const cluster = await webhook(object, false)
        const both = [...file.refused, ...file.warned].sort()
        expect(cluster).toEqual(file)
        for (const line of file.warned) expect(line).toMatch(/only akri run can start the broker$/)
        const bundled = await webhook(object, true)
        const isNew = (line: string) => line.includes(': there is no such field')
        const ofSpecs = (line: string) => !/^spec\.capac/.test(line)
        // An answer has 10 warnings.
        if (bundled.warned.length < 10)
          expect([...bundled.refused, ...bundled.warned].sort()).toEqual(both)
        for (const line of bundled.warned)
          if (!file.warned.includes(line)) expect(isNew(line) && ofSpecs(line)).toBe(true)
        const node = await run(text)
        expect([...node.refused, ...node.warned].sort()).toEqual(
          both.filter((line) => !line.endsWith('only akri run can start the broker')),
        )
        for (const line of node.refused) expect(cluster.refused).toContain(line)
      }),
      { numRuns: 50 },
    )
  })
})
