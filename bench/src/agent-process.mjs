// The agent as a process: the time until it offers devices, cold and warm, and its memory.
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { performance } from 'node:perf_hooks'
import { fileURLToPath } from 'node:url'
import { memoryOf } from './memory.mjs'
import { nodeAlone } from './node-alone.mjs'

const akri = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../cli/dist/akri.js')
/** The chart's flags for V8, which every image uses. */
const FLAGS = ['--max-semi-space-size=2']
/** The memory limit of the existing agent and its four handlers. */
const PEER_MB = 151

export async function measure() {
  const figures = []
  const node = await nodeAlone(FLAGS)
  for (const count of [0, 100, 1000]) {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'akri-bench-'))
    try {
      const descriptions = Array.from({ length: count }, (_, index) => `device-${index}`)
      const file = path.join(folder, 'a.yaml')
      const configuration = (name, handler, details) => ({
        apiVersion: 'akri.sh/v0',
        kind: 'Configuration',
        metadata: { name },
        spec: { discoveryHandler: { name: handler, discoveryDetails: JSON.stringify(details) } },
      })
      const items = [
        configuration('echo', 'debugEcho', { descriptions }),
        configuration('udev', 'udev', { udevRules: ['KERNEL=="null"'] }),
        // The handlers find nothing, or only devices of this machine, but they do all their work.
        configuration('onvif', 'onvif', { interfaces: ['lo'] }),
        configuration('opcua', 'opcua', { opcuaDiscoveryMethod: { standard: {} } }),
      ]
      writeFileSync(file, JSON.stringify({ kind: 'List', items }))
      // Each Configuration has a plugin too. A namespace has 1000 devices at most.
      const plugins = Math.min(count + 1, 1000) + items.length
      const cold = await start(folder, file, plugins)
      await cold.stop()
      const warm = await start(folder, file, plugins)
      // Memory that only the start needed is free by now.
      await new Promise((resolve) => setTimeout(resolve, 3000))
      const { resident, dirty } = warm.memory()
      await warm.stop()
      if (count === 0)
        figures.push({
          what: 'agent start, cold, to the first device',
          value: cold.startMs,
          unit: 'ms',
          budget: 3000,
          peer: node.start,
        })
      if (count === 100)
        figures.push({
          what: 'agent start, warm, to 101 devices offered',
          value: warm.startMs,
          unit: 'ms',
          budget: 1000,
          peer: node.start,
        })
      const peer =
        count === 100 ? { name: "the existing system's limits", value: PEER_MB } : node.memory
      figures.push({
        what: `memory (RSS, ${dirty.toFixed(0)} MB dirty) with ${count} devices`,
        value: resident,
        unit: 'MB',
        budget: count <= 100 ? 120 : 300,
        peer,
      })
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  }
  return figures
}

/** Starts an agent and waits until it has this number of device plugins. */
async function start(folder, file, plugins) {
  const begun = performance.now()
  const child = spawn(
    process.execPath,
    [
      ...FLAGS,
      akri,
      'run',
      '--plain',
      '--log-level',
      'warn',
      '--state-dir',
      path.join(folder, 's'),
      '-f',
      file,
    ],
    { stdio: 'ignore' },
  )
  const ended = new Promise((resolve) => child.once('exit', resolve))
  const sockets = path.join(folder, 's/kubelet/device-plugins')
  while (pluginsIn(sockets) < plugins) {
    if (performance.now() - begun > 120_000)
      throw new Error('the agent did not get ready in two minutes')
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  const startMs = performance.now() - begun
  return {
    startMs,
    memory: () => memoryOf(child.pid),
    async stop() {
      child.kill('SIGTERM')
      await ended
    },
  }
}

/** The number of sockets of device plugins: the socket of the kubelet is there too. */
function pluginsIn(sockets) {
  return existsSync(sockets)
    ? readdirSync(sockets).filter((name) => name.startsWith('akri-')).length
    : 0
}
