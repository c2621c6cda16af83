import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import path from 'node:path'
import type { Configuration } from '@akrijs/api'
import { afterEach, describe, expect, it } from 'vitest'
import { askAgent } from '../../cli/src/control/control-client.js'
import builtIn from '../../handlers/built-in.json' with { type: 'json' }
import { AkriProgram, root } from '../standalone/support/akri-program.js'
import { eventually } from '../support/eventually.js'
import { HANDLER_REQUESTS } from '../support/handler-requests.js'
import { endProcess } from '../support/peer-process.js'

const akri = AkriProgram.ofEachTest()
const programs: ChildProcess[] = []

afterEach(() => Promise.all(programs.splice(0).map((program) => endProcess(program))))

/** A Configuration of each handler. */
function configurations(): Promise<string> {
  const objects = builtIn.handlers.map(({ name }) => ({
    apiVersion: 'akri.sh/v0',
    kind: 'Configuration',
    metadata: { name: name.toLowerCase() },
    spec: {
      discoveryHandler: {
        name,
        discoveryDetails: JSON.stringify(HANDLER_REQUESTS[name]?.details),
      },
    },
  }))
  return akri.write('all.yaml', objects.map((object) => JSON.stringify(object)).join('\n---\n'))
}

/** What the agent says of each Configuration, by its name. */
async function conditions(): Promise<ReadonlyMap<string, string>> {
  const list = await askAgent(
    path.join(akri.state, 'control.sock'),
    '/apis/akri.sh/v0/configurations',
  )
  const { items } = list as { items: Configuration[] }
  return new Map(
    items.map(({ metadata, status }) => [metadata.name, JSON.stringify(status?.conditions)]),
  )
}

/** Each handler answers; the conditions name its endpoint, or that in the agent has failed. */
async function areAnswered(endpointOf: (name: string) => RegExp): Promise<void> {
  for (const { name } of builtIn.handlers)
    await eventually(async () => {
      const text = (await conditions()).get(name.toLowerCase())
      expect(text).toMatch(HANDLER_REQUESTS[name]?.answer ?? expect.fail(`no request: ${name}`))
      expect(text).toMatch(endpointOf(name))
    })
}

/** Each handler has a socket in the directory. */
function haveSockets(directory: string): void {
  for (const { name } of builtIn.handlers)
    expect(existsSync(path.join(directory, `${name}.sock`)), name).toBe(true)
}

describe('all built-in handlers', () => {
  it('work in the process of the agent', async () => {
    akri.start('-f', await configurations())
    await areAnswered((name) => new RegExp(`"embedded-${name}"|"handler ${name} failed: `))
    expect(akri.handlers).toEqual([])
  })

  it('work in processes that the agent starts', async () => {
    akri.start('-f', await configurations(), '--isolated')
    await areAnswered((name) => new RegExp(`\\b${name}@[^"]*/isolated/${name}\\.sock`))
    expect(akri.handlers).toHaveLength(builtIn.handlers.length)
    haveSockets(path.join(akri.state, 'isolated'))
  })

  it('work as programs that register with the agent, as in DaemonSets', async () => {
    const mine = await akri.writeHandler('yield []')
    akri.start('-f', await configurations(), '--handler', mine)
    const directory = path.join(akri.state, 'handlers')
    await eventually(() =>
      expect(existsSync(path.join(directory, 'agent-registration.sock'))).toBe(true),
    )
    const program = path.join(root, 'sdk/dist/akri-handler.js')
    for (const handler of builtIn.handlers)
      programs.push(
        spawn(process.execPath, [program, handler.package, '--directory', directory], {
          cwd: path.join(root, 'cli'),
          env: { PATH: process.env.PATH },
          stdio: 'ignore',
        }),
      )
    await areAnswered((name) => new RegExp(`\\b${name}@[^"]*/handlers/${name}\\.sock`))
    haveSockets(directory)
    expect(programs.map(({ exitCode }) => exitCode)).toEqual(programs.map(() => null))
  })
})
