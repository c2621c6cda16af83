// The cost of sessions (`serverDetails`) for the OPC UA handler, which loads node-opcua's client
// and keeps it. The peer is a program that only opens such a session by that client.
import { execFile, spawn } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import { SimulatedAgent } from '@akrijs/sdk/testing'
import { SecuredServer } from '../../handlers/opcua/test-peers/secured-server.js'
import { type Memory, memoryOf } from './memory.mjs'
import type { Figure } from './table.mjs'

/** The chart's flags for V8, which every image uses. */
const FLAGS = ['--max-semi-space-size=2']
const PEER = `
  const { OPCUAClient, AttributeIds } = await import('node-opcua-client')
  const client = OPCUAClient.create({ endpointMustExist: false })
  const value = { nodeId: 'i=2261', attributeId: AttributeIds.Value }
  await client.withSessionAsync(process.argv[1], (session) => session.read(value))
  console.log(process.memoryUsage.rss())
  process.exit()
`

export async function measure(): Promise<Figure[]> {
  const server = await SecuredServer.start({ applicationUri: 'urn:akri:bench' })
  try {
    const without = await handlerMemory(server.url, false)
    const withSession = await handlerMemory(server.url, true)
    const dirty = withSession.dirty.toFixed(0)
    const { stdout } = await promisify(execFile)(process.execPath, [
      ...FLAGS,
      '--input-type=module',
      '-e',
      PEER,
      server.url,
    ])
    const peer = Number(/^\d+$/m.exec(stdout)?.[0]) / 1024 / 1024
    return [
      {
        what: `OPC UA handler, memory (RSS, ${dirty} MB dirty) with serverDetails`,
        value: withSession.resident,
        unit: 'MB',
        budget: 130,
        peer: { name: "node-opcua's client, one session", value: peer },
      },
      {
        what: 'OPC UA handler, memory that serverDetails add',
        value: withSession.resident - without.resident,
        unit: 'MB',
        budget: 70,
      },
    ]
  } finally {
    await server.close()
  }
}

/** The memory of a handler process that has found this server. */
async function handlerMemory(url: string, serverDetails: boolean): Promise<Memory> {
  const agent = await SimulatedAgent.start()
  const program = path.join(process.cwd(), 'sdk/dist/akri-handler.js')
  const child = spawn(
    process.execPath,
    [...FLAGS, program, path.join(process.cwd(), 'handlers/opcua/dist/index.js')],
    {
      env: { ...process.env, DISCOVERY_HANDLERS_DIRECTORY: agent.directory, LOG_LEVEL: 'warn' },
      stdio: ['ignore', 'inherit', 'inherit'],
    },
  )
  const ended = new Promise((resolve) => child.once('exit', resolve))
  try {
    await agent.registration('opcua')
    const opcuaDiscoveryMethod = { standard: { discoveryUrls: [url] } }
    const session = await agent.discover('opcua', {
      details: JSON.stringify({ opcuaDiscoveryMethod, serverDetails }),
    })
    const [device] = await session.next(60_000)
    const wanted = serverDetails ? 'anonymous' : undefined
    if (device?.properties?.OPCUA_SERVER_DETAILS !== wanted)
      throw new TypeError(`the handler offers ${JSON.stringify(device)}`)
    return memoryOf(child.pid)
  } finally {
    child.kill('SIGTERM')
    await ended
    await agent.close()
  }
}
