import { afterEach, beforeEach, expect, it } from 'vitest'
import { eventually } from '../support/eventually.js'
import { AkriProgram } from './support/akri-program.js'

let akri: AkriProgram

beforeEach(async () => {
  akri = await AkriProgram.create()
})

afterEach(() => akri.dispose())

const lines = (output = akri.output) =>
  output
    .split('\n')
    .filter((line) => line !== '')
    .map((line): unknown => JSON.parse(line))

const BROKER = "echo seen $ID; printf '\\033[31mred\\n'; sleep 600"
const configuration = (handler: string, container: object) =>
  JSON.stringify({
    apiVersion: 'akri.sh/v0',
    kind: 'Configuration',
    metadata: { name: 'lab' },
    spec: {
      discoveryHandler: { name: handler },
      brokerSpec: { brokerPodSpec: { containers: [{ name: 'broker', ...container }] } },
    },
  })

it('akri run --log-format json writes nothing but lines of JSON', async () => {
  const handler = await akri.writeHandler(`
    console.log('text of a\\nhandler')
    yield [{ id: 'it', properties: { ID: 'it' } }]`)
  const file = await akri.write('c.yaml', configuration('mine', { command: ['sh', '-c', BROKER] }))
  akri.start('-f', file, '--handler', handler, '--log-format', 'json', '--color', 'always')
  const broker = (text: string) =>
    expect.objectContaining({
      name: 'akri',
      level: 'info',
      msg: 'text of a broker',
      broker: expect.stringMatching(/^lab-/),
      text: expect.stringContaining(text),
    })
  await eventually(() => {
    expect(lines()).toContainEqual(broker('seen it'))
    expect(lines()).toContainEqual(broker('red'))
    expect(lines()).toContainEqual(expect.objectContaining({ text: 'handler' }))
  })
  expect(await akri.stop('SIGTERM')).toBe(0)
  lines()
})

it.each([
  ['its refusal of options', [], 2, 'nothing to run'],
  ['its failure', ['-f', 'c.yaml'], 1, 'it is not a directory'],
] as const)(
  'akri run --log-format json writes %s as a line of JSON',
  async (_what, args, code, message) => {
    // The directory of the state is a file.
    await akri.write('s', '')
    const { status, stdout, stderr } = akri.run([
      ...['run', '--log-format', 'json', '--state-dir', akri.state],
      ...args,
    ])
    expect([status, stdout]).toEqual([code, ''])
    expect(lines(stderr)).toEqual([
      expect.objectContaining({
        name: 'akri',
        level: 'error',
        msg: 'program failed',
        err: expect.objectContaining({ message: expect.stringContaining(message) }),
      }),
    ])
  },
)
