// The ONVIF and the OPC UA handler in one process, and in two: their memory, each with a discovery.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { SimulatedAgent } from '@akrijs/sdk/testing'
import { memoryOf } from './memory.mjs'

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), '../..')
const PROGRAM = path.join(root, 'sdk/dist/akri-handler.js')
/** The flags of deploy/manifests/handlers/network. */
const FLAGS = ['--max-semi-space-size=2', '--max-old-space-size=192']
/** The handlers find nothing there, but they do all their work. */
const DETAILS = {
  onvif: JSON.stringify({ interfaces: ['lo'] }),
  opcua: JSON.stringify({ opcuaDiscoveryMethod: { standard: {} } }),
}

export async function measure() {
  const both = Object.keys(DETAILS)
  const together = await memoryOfHandlers([both])
  const apart = await memoryOfHandlers(both.map((handler) => [handler]))
  const peer = (value) => ({ name: 'in two processes', value })
  const what = 'of the ONVIF and the OPC UA handler in one process'
  return [
    {
      what: `memory (RSS, ${together.dirty.toFixed(0)} MB dirty) ${what}`,
      value: together.resident,
      unit: 'MB',
      budget: 80,
      peer: peer(apart.resident),
    },
    {
      what: `memory that no other process shares, ${what}`,
      value: together.unshared,
      unit: 'MB',
      budget: 30,
      peer: peer(apart.unshared),
    },
  ]
}

/** @param {string[][]} processes the handlers of each process */
async function memoryOfHandlers(processes) {
  const agent = await SimulatedAgent.start()
  const children = processes.map((handlers) =>
    spawn(
      process.execPath,
      [...FLAGS, PROGRAM, ...handlers.map((name) => `@akrijs/handler-${name}`)],
      {
        stdio: ['ignore', 'ignore', 'inherit'],
        cwd: root,
        env: { ...process.env, DISCOVERY_HANDLERS_DIRECTORY: agent.directory, LOG_LEVEL: 'error' },
      },
    ),
  )
  const ended = children.map((child) => once(child, 'exit'))
  try {
    for (const [handler, details] of Object.entries(DETAILS))
      await agent.discover(handler, { details })
    // The first rounds are over, and memory that only the start needed is free by now.
    await new Promise((resolve) => setTimeout(resolve, 15_000))
    const memory = children.map(({ pid }) => memoryOf(pid))
    const sum = (kind) => memory.reduce((total, each) => total + each[kind], 0)
    return { resident: sum('resident'), unshared: sum('unshared'), dirty: sum('dirty') }
  } finally {
    for (const child of children) child.kill('SIGTERM')
    await Promise.all(ended)
    await agent.close()
  }
}
