// The OPC UA handler as a process: the time until it lists many servers, the cost of a round
// without a change, and its memory, beside node-opcua's client with the same services.

import { execFile, execFileSync, spawn } from 'node:child_process'
import path from 'node:path'
import { performance } from 'node:perf_hooks'
import { promisify } from 'node:util'
import { systemClock } from '@akrijs/runtime'
import { SimulatedAgent } from '@akrijs/sdk/testing'
import {
  application,
  DISCOVERY_SERVER,
  endpoint,
  SimulatedServer,
} from '../../handlers/opcua/test-peers/simulated-server.js'
import { bundleTypeScript } from './load-typescript.mjs'
import { memoryOf } from './memory.mjs'

const SERVERS = 200
/** The chart's flags for V8, which every image uses. */
const FLAGS = ['--max-semi-space-size=2']
const LOAD_PEER = `await import('node-opcua-client'); console.log(process.memoryUsage.rss())`

export async function measure() {
  const root = process.cwd()
  const servers = await Promise.all(
    Array.from({ length: SERVERS }, (_, index) =>
      SimulatedServer.start({ name: `Server ${index}` }),
    ),
  )
  const lds = await SimulatedServer.start()
  const registered = servers.flatMap(({ applications }) => applications)
  lds.applications = [application(DISCOVERY_SERVER), ...registered]
  lds.endpoints = [endpoint(DISCOVERY_SERVER)]
  const agent = await SimulatedAgent.start()
  const program = path.join(root, 'sdk/dist/akri-handler.js')
  const child = spawn(
    process.execPath,
    [...FLAGS, program, path.join(root, 'handlers/opcua/dist/index.js')],
    {
      env: { ...process.env, DISCOVERY_HANDLERS_DIRECTORY: agent.directory, LOG_LEVEL: 'warn' },
      stdio: ['ignore', 'inherit', 'inherit'],
    },
  )
  const ended = new Promise((resolve) => child.once('exit', resolve))
  try {
    await agent.registration('opcua')
    const begun = performance.now()
    const session = await agent.discover('opcua', {
      details: JSON.stringify({ opcuaDiscoveryMethod: { standard: { discoveryUrls: [lds.url] } } }),
    })
    const found = await session.next()
    const firstMs = performance.now() - begun
    const described = found.filter(
      ({ properties }) => properties?.OPCUA_SECURITY_POLICIES === 'None',
    ).length
    if (described !== SERVERS)
      throw new TypeError(`${described} of ${SERVERS} servers were found and described`)
    const asked = () => [lds, ...servers].reduce((sum, server) => sum + server.asked.length, 0)
    const before = asked()
    const rounds = () => lds.asked.filter((service) => service === 'FindServers').length
    while (rounds() < 3) await systemClock.sleep(100)
    const perRound = (asked() - before) / (rounds() - 1)
    const memory = memoryOf(child.pid)
    const dirty = memory.dirty.toFixed(0)
    const printed = execFileSync(
      process.execPath,
      [...FLAGS, '--input-type=module', '-e', LOAD_PEER],
      { encoding: 'utf8' },
    )
    // node-opcua prints warnings of its own.
    const peer = Number(/^\d+$/m.exec(printed)?.[0]) / 1024 / 1024
    const codec = await bundleTypeScript('bench/src/opcua-codec.ts')
    // execFileSync would block the server, which is in this process.
    const { stdout } = await promisify(execFile)(process.execPath, [
      ...FLAGS,
      codec,
      servers[0]?.url ?? '',
    ])
    const [known, , rss] = stdout.trim().split(' ').map(Number)
    if (known !== 1 || rss === undefined) throw new TypeError(`the codec has found ${stdout}`)
    return [
      {
        what: `OPC UA, to the first list of ${SERVERS} servers with their endpoints`,
        value: firstMs,
        unit: 'ms',
        budget: 3000,
      },
      {
        what:
          'OPC UA, of that for each server (one GetEndpoints; ' +
          `FindServers is one for all ${SERVERS})`,
        value: firstMs / SERVERS,
        unit: 'ms',
        budget: 15,
      },
      {
        what: 'OPC UA, requests in a round when nothing changes',
        value: perRound,
        unit: '',
        budget: 11,
      },
      {
        what: `OPC UA handler, memory (RSS, ${dirty} MB dirty) with ${SERVERS} servers`,
        value: memory.resident,
        unit: 'MB',
        budget: 90,
        peer: { name: "node-opcua's client, loaded", value: peer },
      },
      {
        what: 'OPC UA, memory (RSS) of a process that only asks one server by our codec',
        value: rss / 1024 / 1024,
        unit: 'MB',
        budget: 50,
        peer: { name: "node-opcua's client, loaded", value: peer },
      },
    ]
  } finally {
    child.kill('SIGTERM')
    await ended
    await agent.close()
    await Promise.all([lds, ...servers].map((server) => server.close()))
  }
}
